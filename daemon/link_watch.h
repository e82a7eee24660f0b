#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "daemon/worker_set.h"
#include "stack/base/nanos.h"

namespace lyre {

/// A port whose link is watched.
struct WatchedLink {
  std::string name;
  std::function<bool()> is_up;
  std::atomic<uint32_t>* shown;  ///< in the stats segment; what was last seen
};

/// Sees links come and go: the stats segment and the log show it, and workers hear of a link that
/// came up, because what they said before is lost, and who is at the other end may be another.
/// Thread: the control thread. Owner: borrows all that it is given.
class LinkWatch {
 public:
  LinkWatch(WorkerSet& workers, std::vector<WatchedLink> links);

  /// Looks at all of them. Returns after how long to look again.
  Nanos look();

 private:
  bool tell_workers(uint8_t port);

  WorkerSet& workers_;
  std::vector<WatchedLink> links_;
};

}  // namespace lyre
