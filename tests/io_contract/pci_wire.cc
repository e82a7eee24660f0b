#include <cerrno>
#include <cstdlib>
#include <string>

#include "tests/io_contract/dpdk_wire.h"

namespace lyre::io::contract {
namespace {

/// "0000:00:05.0,0000:00:06.0": two NICs on one wire, bound for DPDK, for exclusive use by the
/// test.
std::string ports() {
  const char* value = std::getenv("LYRE_TEST_PCI_PORTS");
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

const Backend& backend() {
  static constexpr Backend kPci{.name = "pci",
                                .is_lossless = false,
                                .mtu_bytes_max = 1500,
                                .has_wait_fd = true,
                                .must_wait = false,
                                .lets_go_when_idle = false};
  return kPci;
}

Result<std::unique_ptr<Wire>> make_wire(const WireOptions& options) {
  const std::string both = ports();
  const size_t comma = both.find(',');
  if (comma == std::string::npos) {
    return Error{ENOTSUP, "LYRE_TEST_PCI_PORTS names no two NICs"};
  }
  const std::string left = both.substr(0, comma);
  const std::string right = both.substr(comma + 1);
  if (auto started = environment({left, right}); !started) return started.error();
  return open_dpdk_wire(options, {.device = left}, {.device = right});
}

}  // namespace lyre::io::contract
