#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "lyre/lyre.h"
#include "nccl_adapter/limits.h"
#include "nccl_adapter/transport/environment.h"

namespace lyre::nccl_adapter {

/// Memory that NCCL registered, made known to the daemon once for all comms that use it, and again
/// to a daemon that came back.
/// Thread: under the instance's lock.
class RegionCache {
 public:
  /// Blocks while the daemon looks at the memory. `context` may be nullptr: then later.
  /// Owner: the cache; give_back() once for each take().
  Memory* take(lyre_context* context, const void* data, size_t bytes);
  /// With the last user the daemon releases the memory. It is not read after this, except by a NIC
  /// that does not free it within a second (its link is down, say), which is logged. What such a
  /// NIC reads is in packets of a session that was reset.
  /// Fails: the LYRE_E code of the daemon's end, or LYRE_E_TIMEDOUT for such a NIC.
  int give_back(Memory* memory);
  /// To be called in each tick. Registers again what the daemon refused for a reason that may pass,
  /// as a limit or an upgrade: one buffer in a call, kAskAgainNs after the last refusal and
  /// kAskNextNs after a success. Blocks as take(): milliseconds, seconds for large memory, and
  /// while the daemon is upgraded as long as lyre_register().
  void ask_again(lyre_context* context, int64_t now_ns);

  /// The context is gone, and every region with it; there is a new one.
  void on_detached();
  void on_attached(lyre_context* context);

 private:
  using Key = std::pair<const void*, size_t>;
  void make_known(lyre_context* context, Memory* memory);
  void mention_copies(size_t bytes, const char* why);

  std::map<Key, Memory> entries_;
  std::deque<Memory*> refused_;        ///< of these, to be registered again, the next one first
  std::optional<int64_t> asks_at_ns_;  ///< none: kAskAgainNs after the next tick
  bool is_mentioned_ = false;
};

}  // namespace lyre::nccl_adapter
