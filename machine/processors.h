#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "machine/files.h"

namespace lyre::machine {

/// What Linux calls a CPU: a hardware thread of a physical core.
struct Processor {
  uint32_t number = 0;
  int node = 0;       ///< NUMA node
  uint32_t core = 0;  ///< the physical core, by the number of its first processor
};

/// The processors of `allowed`, in that order. A machine without NUMA has node 0 only.
std::vector<Processor> processors(const Roots& roots, std::span<const uint32_t> allowed);

/// The NUMA node of a processor; 0 where the kernel names none.
int node_of_processor(const Roots& roots, uint32_t number);

/// Those where the scheduler places no thread by itself (isolcpus).
std::vector<uint32_t> isolated_processors(const Roots& roots);

/// The numbers of a kernel's list such as "0-3,8,10-11"; none where the text is no such list.
std::vector<uint32_t> numbers_of_list(std::string_view list);
/// The other way: "0-3, 8". REQUIRES: ascending.
std::string list_of_numbers(std::span<const uint32_t> numbers);

}  // namespace lyre::machine
