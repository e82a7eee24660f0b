#include <cstdint>
#include <string>

#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/veth_pair.h"

namespace lyre::io::contract {

// With tests/support/keeping_nic.cc in this program the ports are NICs whose drivers free packets
// only when they get others, and have no receive interrupts.
const Backend& backend() {
  static constexpr Backend kKeeping{.name = "keeping",
                                    .is_lossless = false,
                                    .mtu_bytes_max = 1500,
                                    .has_wait_fd = false,
                                    .lets_go_when_idle = false};
  return kKeeping;
}

Result<std::unique_ptr<Wire>> make_wire(const WireOptions& options) {
  static uint32_t made = 0;
  if (Status done = make_veth_pair(options.mtu_bytes); !done) return done.error();
  const std::string left = "net_af_xdp" + std::to_string(2 * made);
  const std::string right = "net_af_xdp" + std::to_string(2 * made + 1);
  ++made;
  return open_dpdk_wire(options, {.device = left + ",iface=left,xdp_prog=none"},
                        {.device = right + ",iface=right,xdp_prog=none"});
}

}  // namespace lyre::io::contract
