#include <cerrno>
#include <string>

#include "tests/io_contract/dpdk_wire.h"

namespace lyre::io::contract {

// The other end of a tap is a kernel interface, which an af_packet port uses here.
const Backend& backend() {
  static constexpr Backend kTap{.name = "tap",
                                .is_lossless = false,
                                .mtu_bytes_max = 1500,
                                .has_wait_fd = true,
                                .has_two_of_ours = false};
  return kTap;
}

Result<std::unique_ptr<Wire>> make_wire(const WireOptions& options) {
  static uint32_t made = 0;
  static const Status entered = enter_own_network();
  if (!entered) return entered.error();
  const std::string number = std::to_string(made++);
  const std::string interface = "tap" + number;
  return open_dpdk_wire(options, {.device = "net_tap" + number + ",iface=" + interface},
                        {.device = "net_af_packet" + number + ",iface=" + interface});
}

}  // namespace lyre::io::contract
