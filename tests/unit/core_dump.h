#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace lyre {

/// Whether a core of this process leaves out the page at `address` (MADV_DONTDUMP).
inline bool is_left_out_of_core(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  std::ifstream mappings("/proc/self/smaps");
  bool is_here = false;
  for (std::string line; std::getline(mappings, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      is_here = begin <= at && at < end;
    } else if (is_here && line.starts_with("VmFlags:")) {
      return (line + " ").find(" dd ") != std::string::npos;
    }
  }
  return false;
}

/// How many mappings of this process have `name` in theirs and are in a core, and how many are not.
struct CoreCount {
  int in = 0;
  int out = 0;
};
inline CoreCount count_in_core(const std::string& name) {
  std::ifstream mappings("/proc/self/smaps");
  bool is_named = false;
  CoreCount count;
  for (std::string line; std::getline(mappings, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      is_named = line.find(name) != std::string::npos;
    } else if (is_named && line.starts_with("VmFlags:")) {
      ++((line + " ").find(" dd ") != std::string::npos ? count.out : count.in);
    }
  }
  return count;
}

/// Whether this system tells what a core leaves out: qemu-user does not.
inline bool tells_what_a_core_has() {
  const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* page = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  ::madvise(page, bytes, MADV_DONTDUMP);
  const bool tells = is_left_out_of_core(page);
  ::munmap(page, bytes);
  return tells;
}

}  // namespace lyre
