#include "machine/kernel_modules.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cctype>
#include <cstring>

namespace lyre::machine {
namespace {

/// The name of the module in a path such as kernel/drivers/vfio/pci/vfio-pci.ko.xz. The kernel
/// takes '-' for '_'.
std::string module_name(std::string path) {
  path.erase(0, path.rfind('/') + 1);
  path.erase(std::min(path.find(".ko"), path.size()));
  std::replace(path.begin(), path.end(), '-', '_');
  return path;
}

/// Each line of these files begins with the path of a module, followed by a colon in modules.dep.
bool is_listed(const std::string& file, const std::string& module) {
  for (const std::string& line : lines(file)) {
    if (module_name(line.substr(0, line.find(':'))) == module) return true;
  }
  return false;
}

}  // namespace

std::string running_release() {
  utsname system{};
  ::uname(&system);
  return system.release;
}

std::string modules_folder() { return "/lib/modules/" + running_release(); }

/// The kind begins with the first letter behind a '-': 6.1.0-57-cloud-amd64, 6.12.43+deb13-amd64.
std::string headers_package(const std::string& release) {
  for (size_t at = release.find('-'); at != std::string::npos; at = release.find('-', at + 1)) {
    if (std::islower(static_cast<unsigned char>(release[at + 1])) == 0) continue;
    const std::string kind = release.substr(at + 1);
    const bool is_name = std::ranges::all_of(kind, [](unsigned char c) {
      return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-';
    });
    return is_name ? "linux-headers-" + kind : "";
  }
  return "";
}

std::string newer_kernel(const std::string& release, const std::string& folder) {
  std::string newest = release;
  for (const std::string& name : entries(folder)) {
    const bool is_newer = ::strverscmp(name.c_str(), newest.c_str()) > 0;
    if (is_newer && exists(folder + "/" + name + "/modules.dep")) newest = name;
  }
  return newest == release ? "" : newest;
}

bool is_module_in(const std::string& folder, const std::string& driver) {
  const std::string index = folder + "/modules.dep";
  if (!exists(index)) return true;
  const std::string module = module_name(driver);
  return is_listed(index, module) || is_listed(folder + "/modules.builtin", module);
}

bool is_driver_available(const std::string& driver, const Roots& roots, const std::string& folder) {
  if (exists(roots.sys + "/module/" + module_name(driver))) return true;
  for (const char* bus : {"pci", "vmbus"}) {
    if (exists(roots.sys + "/bus/" + bus + "/drivers/" + driver)) return true;
  }
  return is_module_in(folder, driver);
}

/// os-release(5): ID has one name, ID_LIKE several, and both may have quotes.
std::string extra_modules_package(const Roots& roots) {
  for (std::string line : lines(roots.etc + "/os-release")) {
    if (!line.starts_with("ID=") && !line.starts_with("ID_LIKE=")) continue;
    line.erase(0, line.find('=') + 1);
    std::erase_if(line, [](char c) { return c == '"' || c == '\''; });
    const std::vector<std::string> names = words(line);
    if (std::ranges::find(names, "ubuntu") != names.end()) {
      return "linux-modules-extra-$(uname -r)";
    }
  }
  return "";
}

}  // namespace lyre::machine
