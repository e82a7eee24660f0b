#pragma once

#include <cstdint>
#include <string>

namespace lyre::io::dpdk {

/// Free hugepages of 2 MiB, the size of packet pools (PageMemory). DPDK's own heap could be in
/// others: a page of 1 GiB for it would be taken whole, and the pools would be in ordinary pages.
/// `sys`: where the kernel's files are. 0: none, or the kernel knows no such pages.
uint64_t free_hugepages_mib(const std::string& sys = "/sys");

/// What to tell where such pages are required and none is free: their size and file, and the sizes
/// that are reserved in vain.
std::string lacks_hugepages(const std::string& sys = "/sys");

}  // namespace lyre::io::dpdk
