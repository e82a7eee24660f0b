#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libclient/include/lyre/lyre.h"

/// Memory that was registered on a context. Thread: the context's. Owner: the context.
struct lyre_region {
  lyre_context* context = nullptr;
  uint32_t place = 0;     ///< in the context's list of regions
  uint32_t name = 0;      ///< the daemon's; 0: not registered there, sends are copied
  std::string why;        ///< the reason when `name` is 0
  bool may_pass = false;  ///< that reason
  const uint8_t* begin = nullptr;
  uint64_t bytes = 0;
  uint64_t begin_offset = 0;  ///< of `begin` in what the daemon has mapped
};

namespace lyre::client {

/// The regions of one context. Thread: the context's. Owner: of the regions.
class Regions {
 public:
  /// nullptr without memory.
  lyre_region* add(lyre_context* context, const void* data, size_t bytes);
  /// Ends `region`.
  void remove(lyre_region* region);
  const std::vector<std::unique_ptr<lyre_region>>& all() const { return regions_; }

 private:
  std::vector<std::unique_ptr<lyre_region>> regions_;
};

/// After that deregister_unsent() asks no more. A NIC whose link is down may hold the memory of
/// each region: the daemon waits a second for the first one, and 50 ms for each further one.
inline constexpr int64_t kDeregisterUnsentNs = 2'000'000'000;

/// Deregisters the regions that sends under way name, for a context that is about to hang up: the
/// daemon would go on sending from them, and their owner may change them. Those of closed sessions
/// come first. Blocks at most three seconds, and as lyre_deregister() where the daemon does not
/// answer.
void deregister_unsent(lyre_context& context);

}  // namespace lyre::client
