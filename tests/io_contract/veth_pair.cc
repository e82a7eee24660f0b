#include "tests/io_contract/veth_pair.h"

#include <time.h>

#include <cerrno>

#include "tests/io_contract/dpdk_wire.h"

namespace lyre::io::contract {

Status make_veth_pair(uint32_t mtu_bytes) {
  static const Status entered = enter_own_network();
  if (!entered) return entered;
  run("ip link del left 2>/dev/null");
  const std::string mtu = std::to_string(mtu_bytes);
  if (!run("ip link add left mtu " + mtu + " type veth peer name right mtu " + mtu)) {
    return Error{ENOTSUP, "the kernel makes no veth pair"};
  }
  if (!run("ip link set left up && ip link set right up")) {
    return Error{ENOTSUP, "the veth pair does not come up"};
  }
  await_interface("left");
  await_interface("right");
  return Ok{};
}

void await_interface(const std::string& interface) {
  constexpr int kTriesMax = 200;
  const timespec moment{0, 10'000'000};
  for (int i = 0; i < kTriesMax; ++i) {
    if (run("ip -o link show " + interface + " | grep -q LOWER_UP")) return;
    nanosleep(&moment, nullptr);
  }
}

}  // namespace lyre::io::contract
