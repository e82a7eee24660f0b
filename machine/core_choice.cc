#include "machine/core_choice.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "machine/nic_guard.h"
#include "machine/nics.h"
#include "machine/vmbus.h"

namespace lyre::machine {
namespace {

constexpr int kAnyNode = -1;

/// MANA, and the virtual functions of Intel's 82599, X540 and X550: their drivers refuse other
/// numbers of queues (stack/io/dpdk/driver_quirks.cc). So does vmxnet3's where the device is older
/// than version 6 (vmxnet3_dev_configure()), which the kernel does not show.
bool needs_power_of_two(uint16_t vendor, uint16_t device) {
  constexpr uint16_t kMicrosoft = 0x1414;
  constexpr uint16_t kMana = 0x00ba;
  constexpr uint16_t kIntel = 0x8086;
  constexpr uint16_t kIxgbeVfs[] = {0x10ed, 0x152e, 0x1515, 0x1530, 0x1564,
                                    0x1565, 0x15c5, 0x15b4, 0x15a8, 0x15a9};
  constexpr uint16_t kVmware = 0x15ad;
  constexpr uint16_t kVmxnet3 = 0x07b0;
  if (vendor == kMicrosoft) return device == kMana;
  if (vendor == kVmware) return device == kVmxnet3;
  return vendor == kIntel &&
         std::find(std::begin(kIxgbeVfs), std::end(kIxgbeVfs), device) != std::end(kIxgbeVfs);
}

/// The PCI function of a NIC: its own, or the virtual function of a NIC on the VMbus, whose driver
/// takes as many queues as that function does.
std::string function_below(const Roots& roots, const std::string& device) {
  if (vmbus_id_of(device).empty()) return pci_address_of(device);
  const std::string mac = device_argument(device, "mac");
  return mac.empty() ? mac : function_with(roots, mac).address;
}

uint32_t speed_of_interface(const Roots& roots, const std::string& interface) {
  const auto mbps = number(roots.sys + "/class/net/" + interface + "/speed");
  return static_cast<uint32_t>(std::max<int64_t>(mbps.value_or(0), 0));  // -1: unknown
}

/// What the ports of a node ask for, and have been given.
struct NodeShare {
  int node = kAnyNode;
  uint32_t wanted = 0;
  uint32_t given = 0;
};

/// Ascending by node; all want `least` together. A port without a node is served where the others
/// are.
std::vector<NodeShare> shares_of(std::span<const PortDemand> ports, uint32_t least) {
  std::map<int, uint64_t> speeds;
  for (const PortDemand& port : ports) {
    if (port.node != kAnyNode) speeds[port.node] += port.speed_mbps;
  }
  if (speeds.empty()) speeds[kAnyNode] = 0;
  for (const PortDemand& port : ports) {
    if (port.node == kAnyNode) speeds.begin()->second += port.speed_mbps;
  }
  std::vector<NodeShare> shares;
  uint64_t wanted = 0;
  for (const auto& [node, mbps] : speeds) {
    shares.push_back({.node = node, .wanted = std::max(workers_of(mbps), 1u)});
    wanted += shares.back().wanted;
  }
  for (size_t i = 0; wanted < least; ++wanted) ++shares[i++ % shares.size()].wanted;
  return shares;
}

/// Whether the next worker goes to `b` rather than to `a`: to a node that wants more, of these to
/// one without any, of these to that with the largest quotient. These are the quotients of
/// Webster's method of apportionment, which keeps the shares in proportion to what is wanted.
bool is_after(const NodeShare& a, const NodeShare& b) {
  const auto urgency = [](const NodeShare& share) {
    const double quotient = static_cast<double>(share.wanted) / (2 * share.given + 1);
    return std::tuple(share.given < share.wanted, share.given == 0, quotient);
  };
  return urgency(a) < urgency(b);
}

class Choice {
 public:
  explicit Choice(std::span<const Processor> processors) : processors_(processors) {}

  /// Takes the best processor that is left for a worker of `node`. False: none is left there, or
  /// only processor 0.
  bool take_one(int node) {
    const Processor* best = nullptr;
    for (const Processor& each : processors_) {
      const bool is_near = node == kAnyNode || each.node == node;
      if (!is_near || each.number == 0 || taken_.count(each.number) > 0) continue;
      if (best == nullptr || rank(each) > rank(*best)) best = &each;
    }
    if (best == nullptr) return false;
    taken_.insert(best->number);
    cores_.insert(best->core);
    return true;
  }

  std::vector<uint32_t> numbers() const { return {taken_.begin(), taken_.end()}; }

 private:
  std::tuple<bool, bool, uint32_t> rank(const Processor& each) const {
    return {cores_.count(each.core) == 0, each.core != 0, each.number};
  }

  std::span<const Processor> processors_;
  std::set<uint32_t> taken_;
  std::set<uint32_t> cores_;
};

}  // namespace

PortDemand demand_of(const Roots& roots, const std::string& device, uint32_t known_mbps) {
  PortDemand demand{.speed_mbps = known_mbps};
  std::vector<std::string> interfaces = {device_argument(device, "iface")};
  std::string folder = roots.sys + "/class/net/" + interfaces.front() + "/device";
  if (const std::string address = function_below(roots, device); !address.empty()) {
    folder = roots.sys + "/bus/pci/devices/" + address;
    interfaces = interfaces_of(folder);
    demand.needs_power_of_two =
        needs_power_of_two(static_cast<uint16_t>(number(folder + "/vendor").value_or(0)),
                           static_cast<uint16_t>(number(folder + "/device").value_or(0)));
  } else if (const std::string id = vmbus_id_of(device); !id.empty()) {
    folder = roots.sys + "/bus/vmbus/devices/" + id;
  }
  demand.node = static_cast<int>(number(folder + "/numa_node").value_or(kAnyNode));
  for (const std::string& interface : interfaces) {
    if (known_mbps == 0) {
      demand.speed_mbps = std::max(demand.speed_mbps, speed_of_interface(roots, interface));
    }
  }
  return demand;
}

std::vector<uint32_t> choose_cores(std::span<const Processor> processors,
                                   std::span<const PortDemand> ports, uint32_t most,
                                   uint32_t least) {
  Choice choice(processors);
  std::vector<NodeShare> shares = shares_of(ports, least);
  uint32_t count = 0;
  while (count < most) {
    NodeShare& next = *std::max_element(shares.begin(), shares.end(), is_after);
    if (next.given == next.wanted) break;
    if (choice.take_one(next.node)) {
      ++next.given;
      ++count;
    } else {
      next.wanted = next.given;  // the node has no more
    }
  }
  for (const NodeShare& share : shares) {
    while (count < least && choice.take_one(share.node)) ++count;
  }
  const bool is_power_needed = std::any_of(
      ports.begin(), ports.end(), [](const PortDemand& port) { return port.needs_power_of_two; });
  if (is_power_needed && count > 0 && !std::has_single_bit(count)) {
    const uint32_t power = std::bit_floor(count);
    return choose_cores(processors, ports, power, std::min(least, power));
  }
  const bool has_one = count > 0 || choice.take_one(kAnyNode);
  return has_one ? choice.numbers() : std::vector<uint32_t>{processors.front().number};
}

std::vector<uint32_t> other_cores(std::span<const Processor> processors, uint32_t core,
                                  std::span<const uint32_t> workers,
                                  std::span<const uint32_t> isolated) {
  const auto own = std::find_if(processors.begin(), processors.end(),
                                [&](const Processor& each) { return each.number == core; });
  if (own == processors.end()) return {};
  std::vector<uint32_t> free, of_workers;
  for (const Processor& each : processors) {
    const bool is_open = std::find(isolated.begin(), isolated.end(), each.number) == isolated.end();
    if (each.node != own->node || each.number == core || !is_open) continue;
    const bool is_taken = std::find(workers.begin(), workers.end(), each.number) != workers.end();
    (is_taken ? of_workers : free).push_back(each.number);
  }
  return free.empty() ? of_workers : free;
}

int memory_node(std::span<const PortDemand> ports, int worker_node) {
  int common = kAnyNode;
  for (const PortDemand& port : ports) {
    if (port.node == kAnyNode) continue;
    if (common != kAnyNode && common != port.node) return worker_node;
    common = port.node;
  }
  return common == kAnyNode ? worker_node : common;
}

}  // namespace lyre::machine
