#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "machine/files.h"

namespace lyre::machine {

/// A machine recorded in a temporary folder: files and links below "proc", "sys" and "etc".
class Tree {
 public:
  Tree() {
    char name[] = "/tmp/lyre-machine-XXXXXX";
    root_ = ::mkdtemp(name);
  }
  ~Tree() { std::filesystem::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  Roots roots() const { return {root_ / "proc", root_ / "sys", root_ / "etc"}; }
  std::filesystem::path path(const std::string& name) const { return root_ / name; }

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  void link(const std::string& name, const std::string& target) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::filesystem::create_directories(root_ / target);
    std::filesystem::create_directory_symlink(root_ / target, root_ / name);
  }
  /// An Ethernet NIC of the PCI bus. `interface` may be empty.
  void add_nic(const std::string& address, const std::string& ids, const std::string& driver,
               const std::string& interface) {
    const std::string folder = "sys/bus/pci/devices/" + address + "/";
    write(folder + "class", "0x020000\n");
    write(folder + "vendor", ids.substr(0, 6) + "\n");
    write(folder + "device", ids.substr(7) + "\n");
    write(folder + "numa_node", "1\n");
    write(folder + "driver_override", "(null)\n");
    if (!driver.empty()) link(folder + "driver", "sys/bus/pci/drivers/" + driver);
    if (interface.empty()) return;
    write(folder + "net/" + interface + "/mtu", "1500\n");
    link("sys/class/net/" + interface + "/device", "sys/bus/pci/devices/" + address);
    write("sys/class/net/" + interface + "/mtu", "1500\n");
  }

 private:
  std::filesystem::path root_;
};

}  // namespace lyre::machine
