#include <cerrno>

#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/veth_pair.h"

namespace lyre::io::contract {

const Backend& backend() {
  static constexpr Backend kPacketPort{.name = "packet_port",
                                       .is_lossless = false,
                                       .mtu_bytes_max = 9000,
                                       .has_wait_fd = true,
                                       .cut = "ip link set left down",
                                       .sends_in_the_call = true};
  return kPacketPort;
}

Result<std::unique_ptr<Wire>> make_wire(const WireOptions& options) {
  if (Status done = make_veth_pair(options.mtu_bytes); !done) return done.error();
  // As on a wire: the kernel completes checksums before the packets leave.
  if (!run("ethtool -K left tx off && ethtool -K right tx off")) {
    return Error{ENOTSUP, "the veth pair keeps its offloads"};
  }
  return open_dpdk_wire(options, {.device = "net_af_packet0,iface=left"},
                        {.device = "net_af_packet1,iface=right"});
}

}  // namespace lyre::io::contract
