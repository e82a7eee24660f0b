#include "machine/kernel_modules.h"

#include <sys/utsname.h>

#include <algorithm>

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

std::string modules_folder() {
  utsname system{};
  ::uname(&system);
  return std::string("/lib/modules/") + system.release;
}

bool is_driver_available(const std::string& driver, const Roots& roots, const std::string& folder) {
  const std::string module = module_name(driver);
  if (exists(roots.sys + "/module/" + module)) return true;
  for (const char* bus : {"pci", "vmbus"}) {
    if (exists(roots.sys + "/bus/" + bus + "/drivers/" + driver)) return true;
  }
  const std::string index = folder + "/modules.dep";
  if (!exists(index)) return true;
  return is_listed(index, module) || is_listed(folder + "/modules.builtin", module);
}

}  // namespace lyre::machine
