#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/veth_pair.h"

namespace lyre::io::contract {

/// Ports on AF_PACKET at both ends of a new veth pair.
inline Result<std::unique_ptr<Wire>> open_af_packet_wire(const WireOptions& options) {
  static uint32_t made = 0;
  if (Status done = make_veth_pair(options.mtu_bytes); !done) return done.error();
  const std::string left = "net_af_packet" + std::to_string(2 * made);
  const std::string right = "net_af_packet" + std::to_string(2 * made + 1);
  ++made;
  return open_dpdk_wire(options, {.device = left + ",iface=left"},
                        {.device = right + ",iface=right"});
}

}  // namespace lyre::io::contract
