#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/veth_pair.h"

namespace lyre::io::contract {
namespace {

using ::testing::HasSubstr;

/// What a new port on AF_PACKET warns of.
std::string warning_of(const std::string& interface) {
  static int made = 0;
  auto started = environment();
  if (!started) return started.error().text;
  const std::string device = "net_af_packet" + std::to_string(made++) + ",iface=" + interface;
  auto memory =
      (*started)->make_memory(0, {.rx_slots = 1024, .devices = {device}, .tx_packets = 256});
  if (!memory) return memory.error().text;
  PacketMemory* const memories[] = {memory->get()};
  auto port = (*started)->open_port({.device = device}, memories);
  return port ? (*port)->info().warning : port.error().text;
}

// Such packets are dropped, and TCP crawls.
TEST(PortWarning, NamesTheCureOfAnInterfaceThatMergesToMoreThan64KiB) {
  if (const Status made = make_veth_pair(1500); !made) GTEST_SKIP() << made.error().text;
  EXPECT_EQ(warning_of("left"), "");
  if (!run("ip link set left gro_max_size 200000")) GTEST_SKIP() << "this kernel has no BIG TCP";
  const std::string warning = warning_of("left");
  constexpr const char* kCure = "ip link set left gro_max_size 65536";
  EXPECT_THAT(warning, HasSubstr(kCure));
  EXPECT_EQ(warning.find('\n'), std::string::npos);
  ASSERT_TRUE(run(kCure));
  EXPECT_EQ(warning_of("left"), "");
}

}  // namespace
}  // namespace lyre::io::contract
