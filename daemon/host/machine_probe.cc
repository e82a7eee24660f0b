#include "daemon/host/machine_probe.h"

#include <grp.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "daemon/base/daemon_limits.h"
#include "daemon/config/config_addresses.h"
#include "machine/default_driver.h"
#include "machine/local_addresses.h"
#include "machine/memory.h"
#include "machine/nic_guard.h"
#include "machine/nics.h"
#include "machine/vmbus.h"
#include "stack/base/page_size_text.h"

namespace lyre {
namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out.empty() ? "none is there" : out;
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// The sizes of which pages are reserved in vain, in brackets. Empty: there are none.
std::string other_pages(const std::vector<machine::HugepagePool>& pools) {
  std::string sizes;
  for (const machine::HugepagePool& pool : pools) {
    if (pool.page_kib == machine::kPacketPageKib || pool.total == 0) continue;
    sizes += (sizes.empty() ? "" : ", ") + page_size_text(pool.page_kib);
  }
  return sizes.empty() ? "" : " (pages of other sizes are not used: " + sizes + ")";
}

class Probe {
 public:
  Probe(const Config& config, const machine::Roots& roots) : config_(config), roots_(roots) {}

  std::vector<std::string> run() {
    check_sockets();
    check_hugepages();
    check_client_memory();
    const auto addresses = machine::local_addresses(roots_);
    for (const PortConfig& port : config_.ports) {
      check_device(port);
      check_addresses(port, addresses);
    }
    return std::move(lines_);
  }

 private:
  void complain(uint32_t line, std::string_view key, const std::string& text) {
    lines_.push_back(complaint(config_.file, line, key, text));
  }
  void complain(const PortConfig& port, const std::string& text) {
    complain(port.lines.of("device"), "port.device",
             "'" + port.device + "' of '" + port.name + "' " + text);
  }

  /// Before any arena, with the number of workers. 0: the value was wrong.
  void check_client_memory() {
    const auto workers = static_cast<uint32_t>(config_.cores.size());
    const uint64_t given = config_.arena_bytes_per_uid_max;
    if (workers == 0 || given == 0) return;
    const uint64_t needed = context_bytes_min(workers, workers * copy_bytes_per_worker(workers));
    if (given >= needed) return;
    complain(0, "clients.arena_bytes_per_uid_max",
             std::to_string(given) + " lets no client attach: with " + std::to_string(workers) +
                 " worker(s) rings, copy area and the smallest arena of one have " +
                 std::to_string(needed) + " bytes, allowed: at least these");
  }

  void check_sockets() {
    check_socket(config_.socket_line, "daemon.socket", config_.socket_path);
    check_group(config_.socket_group_line, "daemon.socket_group", config_.socket_group);
    if (!config_.has_domains) return;
    for (const DomainConfig& domain : config_.domains) {
      check_socket(domain.lines.of("socket"), "domain.socket", domain.socket_path);
      check_group(domain.lines.of("group"), "domain.group", domain.socket_group);
    }
  }

  /// lyred makes the last directory of the path only.
  void check_socket(uint32_t line, std::string_view key, const std::string& path) {
    const std::string above = parent_of(parent_of(path));
    if (above.empty() || machine::exists(above)) return;
    complain(line, key,
             "the directory " + above +
                 " is missing, allowed: one that is there (systemd-tmpfiles --create)");
  }

  void check_group(uint32_t line, std::string_view key, const std::string& group) {
    if (group.empty() || ::getgrnam(group.c_str()) != nullptr) return;
    complain(line, key,
             "there is no group '" + group +
                 "', allowed: one that is there (systemd-sysusers), or \"\"");
  }

  void check_hugepages() {
    if (config_.hugepages != HugepagesMode::kYes) return;
    const auto pools = machine::hugepage_pools(roots_);
    // Not free ones: a daemon that runs may have taken them all, with this configuration.
    const auto has_pages = [](const machine::HugepagePool& pool) {
      return pool.page_kib == machine::kPacketPageKib && pool.total > 0;
    };
    if (std::any_of(pools.begin(), pools.end(), has_pages)) return;
    complain(config_.hugepages_line, "memory.hugepages",
             "hugepages of 2 MiB are required and none is reserved" + other_pages(pools) +
                 ", allowed: \"auto\", or reserve some: echo 192 > " + machine::kPacketPagesFile);
  }

  void check_device(const PortConfig& port) {
    if (port.device.empty()) return;  // what was read of the file has none
    const std::string address = machine::pci_address_of(port.device);
    if (!address.empty()) return check_nic(port, address);
    if (port.device.starts_with("vmbus:")) return check_netvsc(port);
    if (!port.device.starts_with("net_")) return check_unknown(port);
    const bool is_on_interface =
        port.device.starts_with("net_af_packet") || port.device.starts_with("net_af_xdp");
    if (is_on_interface) check_interface(port, machine::device_argument(port.device, "iface"));
    const std::string remote = machine::device_argument(port.device, "remote");
    if (!remote.empty()) check_interface(port, remote);
    if (port.device.starts_with("net_memif")) check_memif(port);
  }

  void check_nic(const PortConfig& port, const std::string& address) {
    const auto nics = machine::pci_nics(roots_);
    const auto nic = std::find_if(nics.begin(), nics.end(),
                                  [&](const auto& each) { return each.address == address; });
    if (nic == nics.end()) {
      std::vector<std::string> there;
      for (const machine::Nic& each : nics) there.push_back(each.address);
      return complain(port, "is no NIC of this machine, allowed: " + joined(there));
    }
    if (machine::is_mana(*nic))
      return check_mana(port, machine::device_argument(port.device, "mac"));
    const machine::DriverChoice choice = machine::default_driver(*nic);
    if (choice.driver.empty() || machine::is_user_space_driver(nic->driver)) return;
    complain(port, "is bound to " + (nic->driver.empty() ? "no driver" : nic->driver) +
                       ", allowed: vfio-pci, uio_pci_generic or igb_uio (lyre nic bind " + address +
                       ")");
  }

  /// Packets of a NIC whose kernel interface is up go to the kernel.
  void check_mana(const PortConfig& port, const std::string& mac) {
    if (mac.empty()) {
      return complain(port, "has a port for each NIC of the machine, allowed: mac= of one of them");
    }
    const machine::FunctionInterface function = machine::function_with(roots_, mac);
    if (function.name.empty()) {
      return complain(port, "has no interface with the MAC address " + mac + ", allowed: another");
    }
    if (!function.is_up) return;
    complain(port, "is used by the kernel as " + function.name + ", allowed: ip link set " +
                       function.name + " down");
  }

  void check_netvsc(const PortConfig& port) {
    const auto nics = machine::vmbus_nics(roots_);
    const std::string id = machine::vmbus_id_of(port.device);
    const auto nic =
        std::find_if(nics.begin(), nics.end(), [&](const auto& each) { return each.id == id; });
    if (nic == nics.end()) {
      std::vector<std::string> there;
      for (const machine::VmbusNic& each : nics) there.push_back("vmbus:" + each.id);
      return complain(port, "is no NIC on the VMbus of this machine, allowed: " + joined(there));
    }
    if (nic->driver != machine::kVmbusUserSpaceDriver) {
      complain(port, "is bound to " + (nic->driver.empty() ? "no driver" : nic->driver) +
                         ", allowed: " + machine::kVmbusUserSpaceDriver + " (" +
                         machine::vmbus_bind_command(id) + ")");
    }
    const std::string mac = machine::device_argument(port.device, "mac");
    if (!mac.empty()) check_function(port, mac);
  }

  void check_function(const PortConfig& port, const std::string& mac) {
    const machine::FunctionInterface function = machine::function_with(roots_, mac);
    if (function.name.empty()) {
      return complain(port, "names a virtual function with the MAC address " + mac +
                                ", which is not there, allowed: its address, or no mac=");
    }
    const auto nics = machine::pci_nics(roots_);
    const bool is_mana = std::any_of(nics.begin(), nics.end(), [&](const machine::Nic& nic) {
      return nic.address == function.address && machine::is_mana(nic);
    });
    if (is_mana) check_mana(port, mac);
  }

  void check_unknown(const PortConfig& port) {
    std::string text =
        "is neither a NIC nor a virtual device, allowed: 0000:00:06.0, vmbus:UUID, or "
        "net_memif0,... and its like";
    if (machine::exists(roots_.sys + "/class/net/" + port.device)) {
      text =
          "is a kernel interface, allowed: its PCI address (lyre nic list), or net_af_packet0,"
          "iface=" +
          port.device;
    }
    complain(port, text);
  }

  void check_interface(const PortConfig& port, const std::string& interface) {
    const std::string folder = roots_.sys + "/class/net/";
    if (interface.empty() || !machine::exists(folder + interface)) {
      const std::string what =
          interface.empty() ? "names no interface" : "is on " + interface + ", which is missing";
      return complain(port, what + ", allowed: iface= one of " + joined(machine::entries(folder)));
    }
    constexpr int64_t kEthernet = 1, kLoopback = 772;  // ARPHRD_*
    const auto type = machine::number(folder + interface + "/type");
    if (type && *type != kEthernet && *type != kLoopback) {
      return complain(port, "is on " + interface +
                                ", which carries no Ethernet frames (IPoIB, WireGuard, TUN), "
                                "allowed: an Ethernet interface");
    }
    const auto mtu = machine::number(folder + interface + "/mtu");
    if (mtu && *mtu < port.mtu_bytes) {
      complain(port.lines.of("mtu"), "port.mtu",
               std::to_string(port.mtu_bytes) + " of '" + port.name + "' is more than " +
                   interface + " has, allowed: up to " + std::to_string(*mtu));
    }
  }

  /// lyred makes the last directory of the path only.
  void check_memif(const PortConfig& port) {
    const std::string socket = machine::device_argument(port.device, "socket");
    const std::string above = parent_of(parent_of(socket));
    if (socket.empty() || above.empty() || machine::exists(above)) return;
    complain(port, "has its socket below " + above + ", which is missing, allowed: /run/lyred");
  }

  void check_addresses(const PortConfig& port, const std::set<std::string>& kernels) {
    for (const Cidr& own : port.addresses) {
      const std::string text = address_text(own.address);
      if (kernels.count(text) == 0) continue;
      complain(port.lines.of("address"), "port.address",
               text + " of '" + port.name +
                   "' is an address of this machine's kernel, which would answer as well, allowed: "
                   "another one, or remove it there (ip address del)");
    }
  }

  const Config& config_;
  const machine::Roots& roots_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> probe_machine(const Config& config, const machine::Roots& roots) {
  return Probe(config, roots).run();
}

}  // namespace lyre
