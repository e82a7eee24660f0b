#include <string>

#include "tests/io_contract/dpdk_wire.h"

namespace lyre::io::contract {

const Backend& backend() {
  static constexpr Backend kMemif{
      .name = "memif", .is_lossless = true, .mtu_bytes_max = 9000, .has_wait_fd = true};
  return kMemif;
}

Result<std::unique_ptr<Wire>> make_wire(const WireOptions& options) {
  static uint32_t made = 0;
  const std::string socket = scratch_folder() + "/" + std::to_string(made) + ".sock";
  const std::string left = "net_memif" + std::to_string(2 * made);
  const std::string right = "net_memif" + std::to_string(2 * made + 1);
  ++made;
  return open_dpdk_wire(options, {.device = left + ",role=server,socket=" + socket},
                        {.device = right + ",role=client,socket=" + socket});
}

}  // namespace lyre::io::contract
