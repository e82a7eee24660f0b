#include "machine/vmbus.h"

#include <strings.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>

#include "machine/nic_guard.h"
#include "machine/nics.h"

namespace lyre::machine {
namespace {

namespace fs = std::filesystem;

/// The class of network devices, as the kernel writes it.
constexpr const char* kNetworkClass = "{f8615163-df3e-46c5-913f-f2d2f965ed0e}";
constexpr int64_t kInterfaceUp = 1;  // IFF_UP

}  // namespace

std::string device_of(const VmbusNic& nic) { return "vmbus:" + nic.id; }

std::vector<VmbusNic> vmbus_nics(const Roots& roots) {
  const std::string devices = roots.sys + "/bus/vmbus/devices";
  std::vector<VmbusNic> nics;
  for (const std::string& id : entries(devices)) {
    const std::string folder = devices + "/" + id;
    if (first_line(folder + "/class_id") != kNetworkClass) continue;
    const std::string told = first_line(folder + "/driver_override");
    VmbusNic nic{.id = id,
                 .driver = link_name(folder + "/driver"),
                 .override_driver = told == "(null)" ? "" : told,
                 .boot_driver = boot_driver_of(roots, "vmbus", id),
                 .interfaces = entries(folder + "/net"),
                 .mac = {},
                 .numa_node = number(folder + "/numa_node").value_or(-1)};
    if (!nic.interfaces.empty()) {
      nic.mac = first_line(roots.sys + "/class/net/" + nic.interfaces.front() + "/address");
    }
    nics.push_back(std::move(nic));
  }
  return nics;
}

std::string vmbus_id_of(const std::string& device) {
  static const std::regex kDevice(
      "vmbus:([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?:,.*)?");
  std::smatch match;
  if (!std::regex_match(device, match, kDevice)) return {};
  std::string id = match[1].str();
  std::transform(id.begin(), id.end(), id.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return id;
}

FunctionInterface function_with(const Roots& roots, const std::string& mac) {
  const std::string interfaces = roots.sys + "/class/net";
  for (const std::string& name : entries(interfaces)) {
    const std::string folder = interfaces + "/" + name;
    if (strcasecmp(first_line(folder + "/address").c_str(), mac.c_str()) != 0) continue;
    std::error_code error;
    const std::string device = fs::canonical(folder + "/device", error).filename();
    const std::string address = error ? "" : pci_address_of(device);
    if (address.empty()) continue;  // the NIC of the VMbus itself
    const auto flags = number(folder + "/flags").value_or(0);
    return {.name = name, .address = address, .is_up = (flags & kInterfaceUp) != 0};
  }
  return {};
}

std::string vmbus_bind_command(const std::string& id) {
  return "driverctl -b vmbus set-override " + id + " " + kVmbusUserSpaceDriver;
}

}  // namespace lyre::machine
