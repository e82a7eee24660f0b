#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "nccl_adapter/protocol/queue_pair_terms.h"
#include "nccl_adapter/transport/lane.h"

namespace lyre::nccl_adapter {

/// The streams of one comm, by their index. There may be more of them later, never fewer.
/// Owner: the comm.
class Lanes {
 public:
  Lanes(SessionOwner* waiter, size_t count) : waiter_(waiter) { grow(count); }

  /// So many, if there are fewer. Not while they are walked through.
  void grow(size_t count) {
    while (all_.size() < count) {
      all_.push_back(std::make_unique<Lane>(waiter_, static_cast<uint16_t>(all_.size())));
    }
  }

  size_t size() const { return all_.size(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  Lane& operator[](size_t index) const { return *all_[index]; }

  /// How many have a session.
  size_t up() const {
    return static_cast<size_t>(
        std::count_if(begin(), end(), [](const auto& lane) { return lane->is_up(); }));
  }
  /// Of those, the one with the lowest index; nullptr: none has one.
  Lane* first_up() const {
    const auto found = std::find_if(begin(), end(), [](const auto& lane) { return lane->is_up(); });
    return found != end() ? found->get() : nullptr;
  }
  bool is_any_up() const { return first_up() != nullptr; }
  /// A stream that takes frames about queue pairs; nullptr: there is none.
  Lane* for_queue_pairs(int64_t now_ns) const {
    const auto found = std::find_if(begin(), end(), [&](const auto& lane) {
      return lane->is_up() && lane->version >= kQueuePairVersion &&
             !lane->transport->is_blocked() && !lane->is_stalled(now_ns);
    });
    return found != end() ? found->get() : nullptr;
  }
  void stop_dials() {
    for (const auto& lane : all_) lane->dial.reset();
  }
  /// Ends every session and dial without another word.
  void drop_all() {
    stop_dials();
    for (const auto& lane : all_) lane->drop();
  }

 private:
  SessionOwner* waiter_;
  std::vector<std::unique_ptr<Lane>> all_;
};

}  // namespace lyre::nccl_adapter
