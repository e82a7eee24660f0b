#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "daemon/workers/worker_set.h"
#include "stack/base/nanos.h"

namespace lyre {

/// A port whose link is watched.
struct WatchedLink {
  std::string name;
  std::function<bool()> is_up;
  std::atomic<uint32_t>* shown;   ///< in the stats segment; what was last seen
  std::function<void()> on_up{};  ///< may be empty
};

/// Polls the links of the ports. Changes go to the stats segment and the log. Workers are told of a
/// link that came up: they announce their addresses again and resolve neighbours again, because
/// earlier packets were lost and the peer may be another host.
/// Thread: the control thread. Owner: borrows all that it is given.
class LinkWatch {
 public:
  LinkWatch(WorkerSet& workers, std::vector<WatchedLink> links);

  /// Polls all of them. Returns the time until the next poll.
  Nanos look();

 private:
  bool tell_workers(uint8_t port);

  WorkerSet& workers_;
  std::vector<WatchedLink> links_;
};

}  // namespace lyre
