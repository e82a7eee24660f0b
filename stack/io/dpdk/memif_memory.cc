#include "stack/io/dpdk/memif_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace lyre::io::dpdk {
namespace {

/// In all mappings. Peers choose how much they share, and what is made present is charged to this
/// process. 64 slots of 64 KiB take 8 MiB for a queue pair.
constexpr size_t kPopulatedBytesMax = size_t{64} << 20;

}  // namespace

void populate_memif_memory() {
  std::ifstream mappings("/proc/self/maps");
  size_t left = kPopulatedBytesMax;
  for (std::string line; left > 0 && std::getline(mappings, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (line.find("/memfd:memif_region") == std::string::npos ||
        std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) {
      continue;
    }
    const size_t bytes = std::min<size_t>(end - begin, left);
    left -= bytes;
    // Memory that is not there any more is no error, nor is other memory in its place: its pages
    // would come when they are used.
    static_cast<void>(madvise(reinterpret_cast<void*>(begin), bytes, MADV_POPULATE_WRITE));
  }
}

}  // namespace lyre::io::dpdk
