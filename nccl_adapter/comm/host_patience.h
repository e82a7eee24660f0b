#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "nccl_adapter/comm/close_patience.h"

namespace lyre::nccl_adapter {

/// How long a process waits at its closes, deregistrations and finalizes for each host to
/// acknowledge goodbyes. NCCL closes the comms of each communicator on another thread, and holds a
/// lock of all communicators while it finalizes one. A host that vanished makes only the ends of
/// its own comms short. Units: the operating system's monotonic clock. Thread: any.
class HostPatience {
 public:
  /// For so long after a finalize that waited in vain for a host, no other end waits for it.
  static constexpr int64_t kVanishedNs = 10'000'000'000;

  /// When the wait of a close that begins now has to end.
  int64_t deadline_ns(const std::string& host, int64_t now_ns);
  /// The close is over. `was_in_vain`: the host did not acknowledge the goodbye; else it was heard.
  void on_closed(const std::string& host, bool was_in_vain, int64_t now_ns);
  /// The same for a deregMr() that waits for acknowledgements: kDeregisterWaitNs, or as short as a
  /// close, if it follows a vain wait of either kind.
  int64_t release_deadline_ns(const std::string& host, int64_t now_ns);
  /// That wait, which began at `begun_ns`, was in vain. It is too short to make a close short.
  void on_released_in_vain(const std::string& host, int64_t begun_ns, int64_t now_ns);
  /// A finalize that waited in full is over, and did not hear this host.
  void on_finalized_in_vain(const std::string& host, int64_t now_ns);
  /// A finalize that waits for these hosts, one or more, need not: it follows one that waited in
  /// vain for each of them.
  bool have_vanished(const std::set<std::string>& hosts, int64_t now_ns);

 private:
  struct Host {
    ClosePatience closes{ClosePatience::kFollowerGoodbyeNs};
    ClosePatience releases{ClosePatience::kFollowerGoodbyeNs};
    std::optional<int64_t> vanished_ns;  ///< when a finalize last waited in vain; heard since: none
    bool has_vanished(int64_t now_ns) const {
      return vanished_ns && now_ns - *vanished_ns < kVanishedNs;
    }
  };

  std::mutex mutex_;
  std::map<std::string, Host> hosts_;
};

}  // namespace lyre::nccl_adapter
