#include "tools/lyre/configured.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace lyre::tools {
namespace {

toml::table file_at(const std::string& path) {
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error&) {
    return {};
  }
}

/// AF_PACKET takes what the kernel merged, so its buffers are large whatever its section says.
bool has_super_packets(const toml::table& port) {
  return port["super_packets"].value_or(false) ||
         port["device"].value_or(std::string_view()).starts_with("net_af_packet");
}

}  // namespace

std::vector<std::string> configured_devices(const std::string& config_path) {
  const toml::table file = file_at(config_path);
  std::vector<std::string> devices;
  const toml::array* ports = file["port"].as_array();
  if (ports == nullptr) return devices;
  for (const toml::node& port : *ports) {
    const toml::table* table = port.as_table();
    const auto device = table != nullptr ? (*table)["device"].value<std::string>() : std::nullopt;
    if (device) devices.push_back(*device);
  }
  return devices;
}

std::vector<uint32_t> configured_cores(const std::string& config_path) {
  const toml::table file = file_at(config_path);
  std::vector<uint32_t> cores;
  const toml::array* list = file["workers"]["cores"].as_array();
  if (list == nullptr) return cores;
  for (const toml::node& each : *list) {
    const auto core = each.value<uint32_t>();
    if (core) cores.push_back(*core);
  }
  return cores;
}

ConfiguredPackets configured_packets(const std::string& config_path) {
  const toml::table file = file_at(config_path);
  ConfiguredPackets packets;
  packets.rx_slots = file["memory"]["rx_slots"].value_or(packets.rx_slots);
  const toml::array* ports = file["port"].as_array();
  if (ports == nullptr) return packets;
  for (const toml::node& port : *ports) {
    const toml::table* table = port.as_table();
    if (table == nullptr) continue;
    packets.mtu_bytes = std::max(packets.mtu_bytes, (*table)["mtu"].value_or(packets.mtu_bytes));
    packets.has_super_packets |= has_super_packets(*table);
  }
  return packets;
}

std::string configured_socket(const std::string& config_path) {
  return file_at(config_path)["daemon"]["socket"].value_or(std::string());
}

std::string daemon_socket(const GlobalOptions& globals, const std::string& config_path) {
  const char* variable = std::getenv("LYRE_SOCKET");
  for (const std::string& path : {globals.socket_path, std::string(variable ? variable : ""),
                                  configured_socket(config_path)}) {
    if (!path.empty()) return path;
  }
  return "/run/lyre/lyred.sock";
}

}  // namespace lyre::tools
