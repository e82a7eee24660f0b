#include "nccl_adapter/transport/verbs/location.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

namespace lyre::nccl_adapter {
namespace {

constexpr int kSameFunction = 3;
constexpr int kSameRootPort = 2;
constexpr int kSameNode = 1;

// -1, too, where the kernel does not know. Not by a stream: those of the C++ library need a newer
// glibc than the plugin may.
int numa_node_of(const std::string& path) {
  const std::string name = path + "/numa_node";
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(name.c_str(), "re"), std::fclose);
  std::array<char, 16> text{};
  if (file == nullptr || std::fgets(text.data(), text.size(), file.get()) == nullptr) return -1;
  int node = -1;
  std::from_chars(text.data(), text.data() + std::strlen(text.data()), node);
  return std::max(node, -1);
}

// "0000:3b:00.0"
bool is_pci_function(const std::string& name) {
  return name.size() >= 12 && name[name.size() - 2] == '.' && name[name.size() - 5] == ':' &&
         name[name.size() - 8] == ':';
}

// "/sys/devices/pci0000:00/0000:00:01.0" of what is behind that port; empty for what is attached to
// the root complex itself.
std::string root_port_of(const std::string& pci_path) {
  const size_t domain = pci_path.find("/pci");
  const size_t port = domain == std::string::npos ? domain : pci_path.find('/', domain + 1);
  const size_t behind = port == std::string::npos ? port : pci_path.find('/', port + 1);
  return behind == std::string::npos ? std::string() : pci_path.substr(0, behind);
}

}  // namespace

// virtio and mlx5's sub-functions have a device of their own below the PCI function. Not by
// std::filesystem, whose calls of stat() need a newer glibc than the plugin may.
Location location_of(const std::string& link) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(link.c_str(), nullptr), std::free);
  std::string path = real != nullptr ? real.get() : "";
  while (!path.empty() && !is_pci_function(path.substr(path.rfind('/') + 1))) {
    path.erase(path.rfind('/'));
  }
  if (path.empty()) return {};
  return {.pci_path = path, .numa_node = numa_node_of(path)};
}

Location location_of(const lyre_port& port) {
  const std::string path(port.pci_path, strnlen(port.pci_path, sizeof port.pci_path));
  if (path.empty()) return {};
  return {.pci_path = path, .numa_node = numa_node_of(path)};
}

int nearness(const Location& a, const Location& b) {
  if (!a.pci_path.empty() && a.pci_path == b.pci_path) return kSameFunction;
  const std::string root_port = root_port_of(a.pci_path);
  if (!root_port.empty() && root_port == root_port_of(b.pci_path)) return kSameRootPort;
  return a.numa_node >= 0 && a.numa_node == b.numa_node ? kSameNode : 0;
}

std::vector<size_t> deal(std::span<const Location> devices, std::span<const Location> rails) {
  std::vector<size_t> dealt;
  std::vector<size_t> counts(rails.size());
  for (const Location& device : devices) {
    const auto rank = [&](size_t rail) {
      return std::pair(-nearness(device, rails[rail]), counts[rail]);
    };
    size_t best = 0;
    for (size_t rail = 1; rail < rails.size(); ++rail) {
      if (rank(rail) < rank(best)) best = rail;
    }
    dealt.push_back(best);
    ++counts[best];
  }
  return dealt;
}

}  // namespace lyre::nccl_adapter
