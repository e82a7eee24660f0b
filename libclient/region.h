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
  uint32_t place = 0;  ///< in the context's list of regions
  uint32_t name = 0;   ///< the daemon's; 0: not registered there, sends are copied
  std::string why;     ///< the reason when `name` is 0
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

 private:
  std::vector<std::unique_ptr<lyre_region>> regions_;
};

}  // namespace lyre::client
