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

uint64_t default_pool_kib(const Roots& roots) {
  for (const std::string& line : lines(roots.proc + "/meminfo")) {
    const std::vector<std::string> fields = words(line);
    if (fields.size() < 2 || fields[0] != "Hugepagesize:") continue;
    return std::strtoull(fields[1].c_str(), nullptr, 10);
  }
  return kPacketPageKib;
}

std::string packet_pages_line(uint64_t pages) {
  return std::string("w ") + kPacketPagesFile + " - - - - " + std::to_string(pages);
}

}  // namespace lyre::machine
