#pragma once

#include <cstdint>
#include <string>
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
/// The kernel's file with their number, which root may change.
inline constexpr const char* kPacketPagesFile =
    "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
/// The pools of all sizes, those without pages too.
std::vector<HugepagePool> hugepage_pools(const Roots& roots);
/// The machine's default size of pages: vm.nr_hugepages counts these.
uint64_t default_pool_kib(const Roots& roots);
/// The line of tmpfiles.d that reserves so many pages for packet pools at each boot, whatever the
/// default size is.
std::string packet_pages_line(uint64_t pages);

}  // namespace lyre::machine
