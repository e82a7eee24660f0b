#pragma once

#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "daemon/workers/worker_set.h"

namespace lyre {

/// Workers that only keep what they are told; the test answers for them.
class FakeWorkers : public WorkerSet {
 public:
  explicit FakeWorkers(uint32_t count) : posted(count), answers(count), watched(count) {}

  uint32_t count() const override { return static_cast<uint32_t>(posted.size()); }
  bool try_post(uint32_t worker, const worker::Command& command) override {
    if (posted[worker].size() >= inbox_room) return false;
    posted[worker].push_back(command);
    return true;
  }
  bool try_take(uint32_t worker, worker::Reply& out) override {
    if (answers[worker].empty()) return false;
    out = answers[worker].front();
    answers[worker].pop_front();
    return true;
  }
  Status watch(uint32_t worker, int ring_fd) override {
    watched[worker].insert(ring_fd);
    return Ok{};
  }
  void unwatch(uint32_t worker, int ring_fd) override { watched[worker].erase(ring_fd); }

  void answer(uint32_t worker, worker::Reply::Kind kind, uint32_t context,
              const char* reason = "") {
    answers[worker].push_back({.kind = kind, .context = context, .reason = reason});
  }
  /// Every worker lets go of every context that it was told to detach, as real ones do.
  void answer_detaches() {
    for (uint32_t i = 0; i < count(); ++i) {
      for (const worker::Command& command : posted[i]) {
        if (command.kind != worker::Command::Kind::kDetach) continue;
        answer(i, worker::Reply::Kind::kDetached, command.context);
      }
      posted[i].clear();
    }
  }

  size_t inbox_room = 256;
  std::vector<std::vector<worker::Command>> posted;
  std::vector<std::deque<worker::Reply>> answers;
  std::vector<std::set<int>> watched;
};

}  // namespace lyre
