#include "stack/io/dpdk/ice_package.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

namespace lyre::io::dpdk {
namespace {

/// pci_id_ice_map, 26.07, in the order of the numbers.
constexpr uint16_t kIceDevices[] = {
    0x0dbd, 0x0dcd, 0x1248, 0x1249, 0x124a, 0x124c, 0x124d, 0x124e, 0x124f, 0x1261,
    0x1262, 0x1263, 0x1265, 0x1266, 0x1267, 0x12d1, 0x12d2, 0x12d3, 0x12d5, 0x12d8,
    0x12da, 0x12dc, 0x12dd, 0x12de, 0x151d, 0x1591, 0x1592, 0x1593, 0x1599, 0x159a,
    0x159b, 0x1888, 0x188a, 0x188b, 0x188c, 0x188d, 0x188e, 0x1890, 0x1891, 0x1892,
    0x1893, 0x1894, 0x1897, 0x1898, 0x1899, 0x189a, 0x579c, 0x579d, 0x579e, 0x579f};

/// "ice.pkg", or "ice-", the NIC's serial number in 16 digits, and ".pkg". Either may be
/// compressed (rte_firmware_read()).
bool is_package(std::string_view name) {
  constexpr std::string_view kOfAll = "ice.pkg";
  constexpr std::string_view kOfOne = "ice-0123456789abcdef.pkg";
  constexpr size_t kPrefixBytes = 4;
  constexpr size_t kSuffixAt = kOfOne.size() - kPrefixBytes;
  if (name.starts_with(kOfAll)) return true;
  return name.starts_with(kOfOne.substr(0, kPrefixBytes)) && name.size() >= kOfOne.size() &&
         name.substr(kSuffixAt).starts_with(kOfOne.substr(kSuffixAt));
}

bool has_package(const std::string& folder) {
  std::error_code error;
  const std::filesystem::directory_iterator files(folder, error);
  return std::any_of(begin(files), end(files),
                     [](const auto& file) { return is_package(file.path().filename().native()); });
}

/// Empty: the kernel looks for firmware in its usual folders only.
std::string own_folder(const std::string& sys) {
  std::ifstream file(sys + "/module/firmware_class/parameters/path");
  std::string folder;
  std::getline(file, folder);
  return folder;
}

}  // namespace

bool is_ice(uint16_t device) {
  return std::binary_search(std::begin(kIceDevices), std::end(kIceDevices), device);
}

/// ice_load_pkg(), 22.11 to 26.07.
bool has_ice_package(const std::string& firmware, const std::string& sys) {
  constexpr const char* kFolder = "/intel/ice/ddp";
  if (has_package(firmware + "/updates" + kFolder) || has_package(firmware + kFolder)) return true;
  const std::string own = own_folder(sys);
  return !own.empty() && has_package(own);
}

}  // namespace lyre::io::dpdk
