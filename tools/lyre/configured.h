#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/lyre/options.h"

/// What `lyre` itself reads of lyred.toml. `lyred --check` says what is wrong in it.
namespace lyre::tools {

/// The devices of its ports, in their order. None where the file is missing or is no TOML.
std::vector<std::string> configured_devices(const std::string& config_path);
/// The list of workers.cores; none where lyred chooses, or as above.
std::vector<uint32_t> configured_cores(const std::string& config_path);

/// Of memory.rx_slots and all ports; their defaults where the file does not say.
struct ConfiguredPackets {
  uint32_t rx_slots = 8192;
  uint32_t mtu_bytes = 1500;       ///< the largest port.mtu
  bool has_super_packets = false;  ///< the buffers of a port take parts of super-packets
};
ConfiguredPackets configured_packets(const std::string& config_path);

/// daemon.socket; empty where it is the usual one, or as above.
std::string configured_socket(const std::string& config_path);

/// The socket that was asked for, else that of $LYRE_SOCKET, of the configuration, or the usual
/// one.
std::string daemon_socket(const GlobalOptions& globals, const std::string& config_path);

}  // namespace lyre::tools
