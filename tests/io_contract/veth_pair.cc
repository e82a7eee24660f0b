#include "tests/io_contract/veth_pair.h"

#include <time.h>

#include <cerrno>

#include "tests/io_contract/dpdk_wire.h"

namespace lyre::io::contract {
namespace {

constexpr const char* kLeftMac = "02:00:00:00:00:01";
constexpr const char* kRightMac = "02:00:00:00:00:02";

}  // namespace

Status make_veth_pair(uint32_t mtu_bytes) {
  static const Status entered = enter_own_network();
  if (!entered) return entered;
  remove_veth_pair();
  return make_veth_pair_again(mtu_bytes);
}

void remove_veth_pair() { run("ip link del left 2>/dev/null"); }

Status make_veth_pair_again(uint32_t mtu_bytes) {
  const auto words = [mtu = std::to_string(mtu_bytes)](const std::string& name, const char* mac) {
    return name + " mtu " + mtu + " address " + mac;
  };
  if (!run("ip link add " + words("left", kLeftMac) + " type veth peer name " +
           words("right", kRightMac))) {
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
