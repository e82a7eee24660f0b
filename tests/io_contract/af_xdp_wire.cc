#include <string>

#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/veth_pair.h"

namespace lyre::io::contract {

const Backend& backend() {
  // XDP requires a frame, its headroom and the packet's metadata in one page.
  static constexpr Backend kAfXdp{.name = "af_xdp",
                                  .is_lossless = false,
                                  .mtu_bytes_max = 3000,
                                  .has_wait_fd = true,
                                  .cut = "ip link set left down"};
  return kAfXdp;
}

Result<std::unique_ptr<Wire>> make_wire(const WireOptions& options) {
  static uint32_t made = 0;
  if (Status done = make_veth_pair(options.mtu_bytes); !done) return done.error();
  const std::string left = "net_af_xdp" + std::to_string(2 * made);
  const std::string right = "net_af_xdp" + std::to_string(2 * made + 1);
  ++made;
  WireOptions larger = options;
  larger.rx_slots *= 4;  // two rings of the socket hold several thousand buffers
  return open_dpdk_wire(larger, {.device = left + ",iface=left"},
                        {.device = right + ",iface=right"});
}

}  // namespace lyre::io::contract
