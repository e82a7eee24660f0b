#include "tests/io_contract/af_packet_pair.h"

namespace lyre::io::contract {

const Backend& backend() {
  static constexpr Backend kAfPacket{.name = "af_packet",
                                     .is_lossless = false,
                                     .mtu_bytes_max = 9000,
                                     .has_wait_fd = true,
                                     .cut = "ip link set left down"};
  return kAfPacket;
}

Result<std::unique_ptr<Wire>> make_wire(const WireOptions& options) {
  return open_af_packet_wire(options);
}

}  // namespace lyre::io::contract
