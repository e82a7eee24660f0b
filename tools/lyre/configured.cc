#include "tools/lyre/configured.h"

#include <toml++/toml.h>

namespace lyre::tools {

std::vector<std::string> configured_devices(const std::string& config_path) {
  std::vector<std::string> devices;
  try {
    const toml::table file = toml::parse_file(config_path);
    const toml::array* ports = file["port"].as_array();
    if (ports == nullptr) return devices;
    for (const toml::node& port : *ports) {
      const toml::table* table = port.as_table();
      const auto device = table != nullptr ? (*table)["device"].value<std::string>() : std::nullopt;
      if (device) devices.push_back(*device);
    }
  } catch (const toml::parse_error&) {
    return {};
  }
  return devices;
}

}  // namespace lyre::tools
