#include "machine/memory.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace lyre::machine {
namespace {

constexpr std::string_view kPrefix = "hugepages-";

uint64_t count(const std::string& path) {
  return static_cast<uint64_t>(std::max<int64_t>(number(path).value_or(0), 0));
}

}  // namespace

std::vector<HugepagePool> hugepage_pools(const Roots& roots) {
  const std::string folder = roots.sys + "/kernel/mm/hugepages";
  std::vector<HugepagePool> pools;
  for (const std::string& name : entries(folder)) {
    if (!name.starts_with(kPrefix)) continue;
    pools.push_back({.page_kib = std::strtoull(name.c_str() + kPrefix.size(), nullptr, 10),
                     .total = count(folder + "/" + name + "/nr_hugepages"),
                     .free = count(folder + "/" + name + "/free_hugepages")});
  }
  return pools;
}

}  // namespace lyre::machine
