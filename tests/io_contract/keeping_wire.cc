#include "tests/io_contract/af_packet_pair.h"

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
  return open_af_packet_wire(options);
}

}  // namespace lyre::io::contract
