#include "daemon/host/kernel_queues.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lyre {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using machine::ReceiveQueues;

/// With so many workers, and eth0 as the only interface whose queues are known.
std::vector<std::string> lines_of(const std::string& device, size_t workers,
                                  const ReceiveQueues& eth0) {
  auto config = parse_config(
      "[[port]]\nname = \"a\"\naddress = \"10.9.0.1/24\"\ndevice = \"" + device + "\"\n", "f");
  EXPECT_TRUE(config.ok()) << config.error().text;
  config->cores.assign(workers, 1);
  return kernel_queues(*config, [&eth0](const std::string& interface) {
    return interface == "eth0" ? std::optional(eth0) : std::nullopt;
  });
}

// Connections whose packets RSS sent to other queues timed out, and nothing said why.
TEST(KernelQueues, ThoseBesideAPortOnAfXdpAreNamed) {
  EXPECT_THAT(
      lines_of("net_af_xdp0,iface=eth0", 1, {.combined = 8}),
      ElementsAre("port a: what eth0 receives on queues 1-7 goes to the kernel, as the port has "
                  "only queue 0: ethtool -L eth0 combined 1, or flow rules that steer the port's "
                  "packets (ethtool -N)"));
  EXPECT_THAT(lines_of("net_af_xdp0,iface=eth0,queue_count=2", 2, {.combined = 3}),
              ElementsAre(HasSubstr("on queue 2 goes to the kernel, as the port has only queues "
                                    "0-1: ethtool -L eth0 combined 2,")));
  EXPECT_THAT(lines_of("net_af_xdp0,iface=eth0", 1, {.receive_only = 2}),
              ElementsAre(HasSubstr(": ethtool -L eth0 rx 1,")));
  EXPECT_THAT(lines_of("net_af_xdp0,iface=eth0", 1, {.combined = 2, .receive_only = 2}),
              ElementsAre(HasSubstr(": ethtool -L eth0 combined 1 rx 0,")));
}

TEST(KernelQueues, ThoseBelowTheFirstOneStayTheKernels) {
  EXPECT_THAT(lines_of("net_af_xdp0,iface=eth0,start_queue=2", 1, {.combined = 4}),
              ElementsAre(HasSubstr("on queues 0-1, 3 goes to the kernel, as the port has only "
                                    "queue 2: no start_queue= in its device, and ethtool -L eth0 "
                                    "combined 1,")));
}

TEST(KernelQueues, NothingIsSaidWhereThePortGetsItsPackets) {
  const std::string device = "net_af_xdp0,iface=eth0";
  EXPECT_THAT(lines_of(device, 8, {.combined = 8}), IsEmpty());
  EXPECT_THAT(lines_of(device, 1, {.combined = 8, .rss_table = {0, 0}}), IsEmpty());
  EXPECT_THAT(lines_of(device, 1, {.combined = 8, .flow_rules = 1}), IsEmpty());
  EXPECT_THAT(lines_of("net_af_xdp0,iface=eth1", 1, {.combined = 8}), IsEmpty()) << "not known";
  EXPECT_THAT(lines_of("net_af_packet0,iface=eth0", 1, {.combined = 8}), IsEmpty());
}

}  // namespace
}  // namespace lyre
