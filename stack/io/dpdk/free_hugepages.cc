#include "stack/io/dpdk/free_hugepages.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "stack/base/page_size_text.h"

namespace lyre::io::dpdk {
namespace {

constexpr uint64_t kPoolPageKib = 2048;
constexpr std::string_view kPrefix = "hugepages-";

std::string all_sizes(const std::string& sys) { return sys + "/kernel/mm/hugepages"; }

/// "hugepages-2048kB"
std::string folder_of(uint64_t page_kib) {
  return std::string(kPrefix) + std::to_string(page_kib) + "kB";
}

uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : 0;
}

/// The sizes of which pages are reserved, without that of pools, the smallest first.
std::vector<uint64_t> other_sizes_kib(const std::string& sys) {
  std::vector<uint64_t> sizes;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(all_sizes(sys), failure)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    uint64_t kib = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), kib);
    if (kib == 0 || kib == kPoolPageKib) continue;
    if (number_in(entry.path() / "nr_hugepages") > 0) sizes.push_back(kib);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

}  // namespace

uint64_t free_hugepages_mib(const std::string& sys) {
  const std::string file = all_sizes(sys) + "/" + folder_of(kPoolPageKib) + "/free_hugepages";
  return number_in(file) * kPoolPageKib / 1024;
}

std::string lacks_hugepages(const std::string& sys) {
  std::string text = "hugepages of 2 MiB are required and none is free: see " + all_sizes("/sys") +
                     "/" + folder_of(kPoolPageKib) + "/free_hugepages";
  std::string others;
  for (const uint64_t kib : other_sizes_kib(sys)) {
    others += (others.empty() ? "" : ", ") + page_size_text(kib);
  }
  if (!others.empty()) text += "; pages of other sizes are not used: " + others;
  return text;
}

}  // namespace lyre::io::dpdk
