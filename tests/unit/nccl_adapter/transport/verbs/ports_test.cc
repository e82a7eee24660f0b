#include "nccl_adapter/transport/verbs/ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/unit/nccl_adapter/support/verbs_devices.h"

namespace lyre::nccl_adapter {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VerbsPorts : public DescribedDevices {
 protected:
  static VerbsPort only() {
    const std::vector<VerbsPort> ports = find_verbs_ports(kFakeApi, {});
    EXPECT_EQ(ports.size(), 1u);
    return ports.front();
  }
};

TEST_F(VerbsPorts, NoDeviceIsNoPort) { EXPECT_THAT(find_verbs_ports(kFakeApi, {}), IsEmpty()); }

TEST_F(VerbsPorts, SayWhatTheDeviceSays) {
  add("rxe0", {FakeGid{v4(10, 9, 0, 1)}});
  const VerbsPort port = only();
  EXPECT_EQ(port.device, "rxe0");
  EXPECT_EQ(port.port, 1);
  EXPECT_EQ(port.speed_mbps, 100'000u);
  EXPECT_EQ(port.mtu_bytes, 1024u);
  EXPECT_EQ(port.limits.work_requests, 8192u);
  EXPECT_EQ(port.limits.sges, 6u);
  EXPECT_EQ(port.why_not, "");
  EXPECT_EQ(port.describe(), "rxe0, 100000 Mb/s, MTU 1024, GID 0 10.9.0.1");
}

TEST_F(VerbsPorts, SayWhereTheyAreAndWhetherTheyTakeDmaBufs) {
  FakeDevice& fake = add("rxe0", {FakeGid{v4(10, 9, 0, 1)}});
  EXPECT_FALSE(only().takes_dma_buf);
  fake.dma_buf_errno = EPROTONOSUPPORT;
  EXPECT_FALSE(only().takes_dma_buf);
  fake.dma_buf_errno = EBADF;
  VerbsPort port = only();
  EXPECT_TRUE(port.takes_dma_buf);
  port.location = {.pci_path = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", .numa_node = 1};
  EXPECT_EQ(port.describe(),
            "rxe0, 100000 Mb/s, MTU 1024, PCI 0000:3b:00.0, NUMA node 1, dma-buf, GID 0 10.9.0.1");
}

TEST_F(VerbsPorts, ALibraryWithoutDmaBufsIsTaken) {
  add("rxe0", {FakeGid{v4(10, 9, 0, 1)}}).dma_buf_errno = EBADF;
  VerbsApi old = kFakeApi;
  old.reg_dmabuf_mr = nullptr;
  EXPECT_FALSE(find_verbs_ports(old, {}).front().takes_dma_buf);
}

TEST_F(VerbsPorts, EachPortOfADeviceIsOne) {
  add("rxe0", {FakeGid{v4(10, 9, 0, 1)}}).attr.phys_port_cnt = 2;
  const std::vector<VerbsPort> ports = find_verbs_ports(kFakeApi, {});
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_EQ(ports[1].port, 2);
  EXPECT_EQ(ports[0].name(), "rxe0");
  EXPECT_EQ(ports[1].name(), "rxe0 port 2");
}

TEST_F(VerbsPorts, AreInTheOrderOfTheirNames) {
  for (const char* name : {"mlx5_10", "mlx5_2"}) add(name, {FakeGid{v4(10, 9, 0, 1)}});
  const std::vector<VerbsPort> ports = find_verbs_ports(kFakeApi, {});
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_EQ(ports[0].name(), "mlx5_2");
  EXPECT_EQ(ports[1].name(), "mlx5_10");
}

TEST_F(VerbsPorts, HolesAndEmptyEntriesOfTheTableAreSkipped) {
  add("rxe0", {std::nullopt, FakeGid{Address{}}, std::nullopt, FakeGid{v4(10, 9, 0, 1)}});
  const VerbsPort port = only();
  ASSERT_EQ(port.gids.size(), 1u);
  EXPECT_EQ(port.gids[0].index, 3u);
  EXPECT_EQ(port.why_not, "");
}

TEST_F(VerbsPorts, ThatCannotBeUsedSayWhy) {
  const FakeGid good{v4(10, 9, 0, 1)};
  FakeDevice& fake = add("rxe0", {good});
  fake.port.state = IBV_PORT_DOWN;
  EXPECT_THAT(only().why_not, HasSubstr("not active"));
  fake.port.state = IBV_PORT_ACTIVE;
  fake.port.link_layer = IBV_LINK_LAYER_INFINIBAND;
  EXPECT_THAT(only().why_not, HasSubstr("not Ethernet"));
  fake.port.link_layer = IBV_LINK_LAYER_ETHERNET;
  fake.attr.max_sge = 1;
  EXPECT_THAT(only().why_not, HasSubstr("work requests"));
  fake.attr.max_sge = 6;
  fake.gids = {FakeGid{v4(10, 9, 0, 1), IBV_GID_TYPE_IB}};
  fake.device.transport_type = IBV_TRANSPORT_IWARP;
  EXPECT_THAT(only().why_not, HasSubstr("RDMA-CM"));
  fake.device.transport_type = IBV_TRANSPORT_UNSPECIFIED;  // EFA
  EXPECT_THAT(only().why_not, HasSubstr("reliable connections"));
  fake.device.transport_type = IBV_TRANSPORT_IB;
  fake.gids = {FakeGid{v6(0xfe, 0x80, 1)}};
  EXPECT_THAT(only().why_not, HasSubstr("GID"));
  fake.gids = {FakeGid{v4(10, 9, 0, 1), IBV_GID_TYPE_ROCE_V1}};
  EXPECT_THAT(only().why_not, HasSubstr("GID"));
  fake.gids = {good};
  EXPECT_EQ(only().why_not, "");
}

TEST_F(VerbsPorts, OfIwarpDevicesAreUsedWhereTheirTableHasRoceV2) {
  add("erdma_0", {FakeGid{v4(10, 9, 0, 1)}}).device.transport_type = IBV_TRANSPORT_IWARP;
  EXPECT_EQ(only().why_not, "");
}

TEST_F(VerbsPorts, AreThoseThatAreAskedFor) {
  add("mlx5_0", {FakeGid{v4(10, 9, 0, 1)}}).attr.phys_port_cnt = 2;
  add("mlx5_1", {FakeGid{v4(10, 9, 1, 1)}});
  const std::vector<VerbsPort> ports =
      find_verbs_ports(kFakeApi, {.verbs_devices = {"mlx5_0:2", "mlx5_1"}});
  ASSERT_EQ(ports.size(), 3u);
  EXPECT_EQ(ports[0].why_not, "not in LYRE_VERBS_DEVICES");
  EXPECT_EQ(ports[1].why_not, "");
  EXPECT_EQ(ports[2].why_not, "");
}

TEST_F(VerbsPorts, ADeviceThatCannotBeOpenedIsNamedWithTheReason) {
  add("rxe0", {}).opens = false;
  EXPECT_EQ(only().describe(),
            std::string("rxe0, cannot be used: it cannot be opened: ") + std::strerror(EPERM));
}

TEST_F(VerbsPorts, AnEmulatedDeviceIsTakenWhenItIsAskedFor) {
  add("rxe0", {FakeGid{v4(10, 9, 0, 1)}}).attr.vendor_id = 0xffffff;
  EXPECT_THAT(only().describe(), HasSubstr("cannot be used: it is emulated"));
  EXPECT_EQ(find_verbs_ports(kFakeApi, {.takes_emulated_verbs = true}).front().why_not, "");
}

TEST_F(VerbsPorts, ADeviceThatDoesNotAnswerIsNamedWithTheReason) {
  FakeDevice& fake = add("rxe0", {FakeGid{v4(10, 9, 0, 1)}});
  fake.query_port_code = EINVAL;
  EXPECT_THAT(only().why_not, HasSubstr(std::strerror(EINVAL)));
  fake.query_device_code = ENODEV;
  errno = 0;  // the code is what the function returns
  EXPECT_THAT(only().why_not, HasSubstr(std::strerror(ENODEV)));
}

TEST(GidChoice, TakesRoceV2OfThePeersFamilyAndNeverALinkLocalOne) {
  const std::vector<Gid> gids = {{0, v6(0xfe, 0x80, 1), true},
                                 {1, v4(10, 9, 0, 1), false},
                                 {2, v4(169, 254, 0, 1), true},
                                 {3, v4(10, 9, 0, 1), true},
                                 {4, v6(0xfd, 0x00, 1), true}};
  EXPECT_EQ(choose_gid(gids, v4(10, 9, 0, 2))->index, 3u);
  EXPECT_EQ(choose_gid(gids, v6(0xfd, 0x00, 2))->index, 4u);
  EXPECT_FALSE(choose_gid(std::span(gids).first(3), v4(10, 9, 0, 2)));
}

TEST(GidChoice, TakesTheIndexThatIsSetOrNone) {
  const std::vector<Gid> gids = {{1, v4(10, 9, 0, 1), true}, {3, v4(10, 8, 0, 1), true}};
  EXPECT_EQ(choose_gid(gids, v4(10, 9, 0, 2), 3)->index, 3u);
  EXPECT_FALSE(choose_gid(gids, v4(10, 9, 0, 2), 2));
}

TEST(GidChoice, TakesTheOneNearestToThePeerAndOfEqualOnesTheFirst) {
  const std::vector<Gid> gids = {
      {0, v4(10, 8, 0, 1), true}, {1, v4(10, 9, 0, 1), true}, {2, v4(10, 9, 0, 1), true}};
  EXPECT_EQ(choose_gid(gids, v4(10, 9, 0, 2))->index, 1u);
  EXPECT_EQ(choose_gid(gids, v4(10, 8, 0, 2))->index, 0u);
  EXPECT_EQ(choose_gid(gids, v4(11, 0, 0, 2))->index, 0u);
}

TEST(FittingGids, AreAllThatThePeerCanBeSpokenToFromTheNearestFirst) {
  const std::vector<Gid> gids = {{0, v4(10, 8, 0, 1), true},
                                 {1, v4(169, 254, 0, 1), true},
                                 {2, v4(10, 9, 0, 1), true},
                                 {3, v6(0xfd, 0x00, 1), true},
                                 {4, v4(10, 9, 0, 3), false}};
  const std::vector<Gid> fitting = fitting_gids(gids, v4(10, 9, 0, 2));
  ASSERT_EQ(fitting.size(), 2u);
  EXPECT_EQ(fitting[0].index, 2u);
  EXPECT_EQ(fitting[1].index, 0u);
}

}  // namespace
}  // namespace lyre::nccl_adapter
