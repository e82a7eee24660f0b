#include "stack/io/dpdk/device_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <cerrno>
#include <set>
#include <string>

#include "stack/io/dpdk/memif_segments.h"
#include "stack/io/dpdk/memory.h"

namespace lyre::io::dpdk {
namespace {

using ::testing::HasSubstr;

TEST(VirtualQueuePairs, AreThoseOfTheOptions) {
  const auto most = [](const char* device) {
    return virtual_queue_pairs_max(DeviceArgs::parse(device));
  };
  EXPECT_EQ(most("net_af_xdp0,iface=eth1"), 1u);
  EXPECT_EQ(most("net_af_xdp0,iface=eth1,queue_count=8"), 8u);
  EXPECT_EQ(most("net_tap0,iface=lyre0"), 16u);
  EXPECT_EQ(most("net_af_packet0,iface=eth1"), 0u);
  EXPECT_EQ(most("net_memif0,role=server"), 0u) << "as many as it is asked for";
}

/// The id that DPDK is told of a memif, or the refusal.
std::string id_of(const std::string& options, const VirtualDeviceNeeds& needs) {
  DeviceArgs args = DeviceArgs::parse("net_memif0,role=client,socket=wire" + options);
  const Status prepared = prepare_virtual_device(args, needs);
  if (prepared.ok()) return std::string(args.value_of("id"));
  EXPECT_EQ(prepared.error().code, EINVAL);
  return prepared.error().text;
}

TEST(MemifId, OfOneQueueIsTheUsers) {
  EXPECT_EQ(id_of("", {}), "0");
  EXPECT_EQ(id_of(",id=7", {}), "7");
  EXPECT_EQ(id_of(",id=4194303", {}), "4194303");
}

// Ends that differ must not meet, whatever they have.
TEST(MemifId, DiffersWhereTheEndsWouldNotUnderstandEachOther) {
  if (!check_memif_super_packets("", dpdk_version())) GTEST_SKIP() << "this DPDK has none";
  std::set<std::string> ids;
  size_t wires = 0;
  for (uint32_t queues = 1; queues <= 64; ++queues) {
    for (const bool is_trusted : {false, true}) {
      for (const bool has_super_packets : {false, true}) {
        for (const char* own : {"0", "1", "4194303"}) {
          ids.insert(id_of(std::string(",id=") + own, {.queue_count = queues,
                                                       .is_trusted = is_trusted,
                                                       .has_super_packets = has_super_packets}));
          ++wires;
        }
      }
    }
  }
  EXPECT_EQ(ids.size(), wires);
}

TEST(MemifId, ThatNeedsTheBitsOfThePortIsRefusedInOneLine) {
  for (const char* wrong : {"4194304", "4294967296", "-1", "0x7", "7 ", "a", ""}) {
    EXPECT_EQ(id_of(std::string(",id=") + wrong, {}),
              "net_memif0: id must be a number of at most 4194303")
        << wrong;
  }
}

/// What is wrong with the device, or nothing.
std::string wrong_of(const std::string& device) {
  const Status known = check_virtual_device(device, {});
  if (known.ok()) return "";
  EXPECT_EQ(known.error().code, EINVAL);
  return known.error().text;
}

TEST(VirtualDevice, EveryDriverThatLyreSupportsIsKnown) {
  for (const char* device :
       {"net_memif0,role=server,socket=/run/lyred/wire.sock,socket-abstract=no,id=7,rsize=8",
        "net_memif", "net_memif12,role=client,socket=wire,zero-copy=no,mac=02:00:00:00:00:01",
        "net_af_packet901,iface=eth1",
        "net_af_xdp0,iface=eth1,start_queue=1,queue_count=2,xdp_prog=/x.o,busy_budget=64",
        "net_tap0", "net_tap0,iface=lyre0,remote=eth0,mac=fixed,persist"}) {
    EXPECT_EQ(wrong_of(device), "");
  }
}

// `lyred --check` said "right", and the service was started again for ever.
TEST(VirtualDevice, AnUnknownDriverIsRefused) {
  EXPECT_EQ(wrong_of("net_afpacket0,iface=lo"),
            "net_afpacket0: unknown virtual device, allowed: net_memif, net_af_packet, net_af_xdp, "
            "net_tap");
  EXPECT_THAT(wrong_of("net_memifs0"), HasSubstr("net_memifs0: unknown virtual device"));
}

// Its port was up, and no packet came or left: the kernel, or the switch, was not told where
// packets are.
TEST(VirtualDevice, ABackendThatCannotSeePacketsIsRefused) {
  for (const char* options : {",path=/dev/vhost-net", ",path=/run/switch.sock", ""}) {
    EXPECT_EQ(wrong_of(std::string("net_virtio_user0") + options),
              "net_virtio_user0: its backend cannot see the daemon's packet memory, allowed: "
              "net_tap, net_af_packet or net_memif");
  }
}

// memif's driver ignores all options then: a server became a client on another socket.
TEST(VirtualDevice, AnUnknownOptionIsRefused) {
  EXPECT_EQ(wrong_of("net_memif0,rol=server,socket=/run/lyred/wire.sock"),
            "net_memif0: unknown option 'rol', allowed: role, socket, socket-abstract, id, bsize, "
            "rsize, mac, secret, zero-copy");
  EXPECT_EQ(wrong_of("net_tap0,ifce=x"),
            "net_tap0: unknown option 'ifce', allowed: iface, remote, mac, persist");
  EXPECT_EQ(wrong_of("net_af_packet0,iface=eth1,framecnt=64"),
            "net_af_packet0: unknown option 'framecnt', allowed: iface");
  EXPECT_THAT(wrong_of("net_tap0,iface=x,"), "");
}

TEST(VirtualDevice, ValuesThatMemifCannotHaveAreRefused) {
  EXPECT_EQ(wrong_of("net_memif0,role=servr"),
            "net_memif0: role is 'servr', allowed: server, client");
  EXPECT_THAT(wrong_of("net_memif0,role=myserver"), HasSubstr("role is 'myserver'"));
  EXPECT_THAT(wrong_of("net_memif0,role"), HasSubstr("role is ''"));
  EXPECT_EQ(wrong_of("net_memif0,zero-copy=yes"), "net_memif0: zero-copy is 'yes', allowed: no");
  EXPECT_THAT(wrong_of("net_memif0,socket-abstract=maybe"), HasSubstr("allowed: yes, no"));
  EXPECT_THAT(wrong_of("net_memif0,id=x"), HasSubstr("id must be a number"));
  EXPECT_THAT(wrong_of("net_memif0,bsize=1000"), HasSubstr("bsize must lie between"));
}

// The driver then sleeps for up to a second in the worker's turn.
TEST(VirtualDevice, AnXdpPortWithoutBusyPollingIsRefused) {
  EXPECT_EQ(wrong_of("net_af_xdp0,iface=eth1,busy_budget=0"),
            "net_af_xdp0: busy_budget is '0', allowed: 1 to 65535");
  for (const char* wrong : {"00", "", "x", "1x", "-1", "65536", "64,busy_budget=0"}) {
    EXPECT_THAT(wrong_of(std::string("net_af_xdp0,iface=eth1,busy_budget=") + wrong),
                HasSubstr("allowed: 1 to 65535"))
        << wrong;
  }
  EXPECT_EQ(wrong_of("net_af_xdp0,iface=eth1,busy_budget=1"), "");
  EXPECT_EQ(wrong_of("net_af_xdp0,iface=eth1,busy_budget=65535"), "");
  DeviceArgs args = DeviceArgs::parse("net_af_xdp0,iface=eth1,busy_budget=0");
  EXPECT_FALSE(prepare_virtual_device(args, {}));
}

TEST(VirtualDevice, OtherDriversHaveNoId) {
  DeviceArgs args = DeviceArgs::parse("net_tap0,iface=lyre0");
  ASSERT_TRUE(prepare_virtual_device(args, {.queue_count = 2, .is_trusted = true}));
  EXPECT_FALSE(args.has("id"));
}

}  // namespace
}  // namespace lyre::io::dpdk
