#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tools/nccl_emulator/net_plugin.h"
#include "tools/nccl_emulator/ring.h"
#include "tools/nccl_emulator/shared_pages.h"

namespace lyre::nccl_emulator {

/// The staging buffers of one connection, laid out and registered as NCCL does: one allocation, one
/// registration for each protocol (LL128 is registered, too, and not used over a network).
/// Owner: of pages and registrations; the comm is the caller's, and outlives the registrations.
/// Thread: the service thread for create() and destroy().
class Staging {
 public:
  /// Fails: throws Failure with the plugin's result; destroy() then removes what was registered.
  void create(NetPlugin& plugin, void* comm);
  /// In NCCL's order: registrations, then the pages. The caller closes the comm after it.
  /// Fails: throws Failure with the plugin's result.
  void destroy(NetPlugin& plugin, void* comm);

  /// kSlots slots, one behind the other.
  uint8_t* slots(Protocol protocol) const;
  void* mhandle(Protocol protocol) const;

 private:
  static constexpr size_t kRegions = 3;  // LL, LL128, Simple
  SharedPages pages_;
  std::array<void*, kRegions> mhandles_{};
};

}  // namespace lyre::nccl_emulator
