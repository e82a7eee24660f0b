#pragma once

#include <cstdint>
#include <vector>

#include "machine/files.h"

namespace lyre::machine {

/// Hugepages of one size.
struct HugepagePool {
  uint64_t page_kib = 0;
  uint64_t total = 0;
  uint64_t free = 0;

  uint64_t total_mib() const { return total * page_kib / 1024; }
  uint64_t free_mib() const { return free * page_kib / 1024; }
};
/// The size of pages that packet pools take, whatever the machine's default is.
inline constexpr uint64_t kPacketPageKib = 2048;
/// The pools of all sizes, those without pages too.
std::vector<HugepagePool> hugepage_pools(const Roots& roots);

}  // namespace lyre::machine
