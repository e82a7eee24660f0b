#include "nccl_adapter/plugin/properties.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "nccl_adapter/observe/log.h"

namespace lyre::nccl_adapter {
namespace {

constexpr const char* kNear = "/sys/devices/pci0000:10/0000:10:00.0/0000:11:00.0";
constexpr const char* kFar = "/sys/devices/pci0000:90/0000:90:00.0/0000:91:00.0";

lyre_port port(const char* name, const char* path, uint32_t speed_mbps) {
  lyre_port made{};
  std::strcpy(made.name, name);
  std::strcpy(made.pci_path, path);
  made.speed_mbps = speed_mbps;
  return made;
}

VerbsPort rdma_port(const char* path, uint32_t speed_mbps) {
  VerbsPort made;
  made.speed_mbps = speed_mbps;
  made.location = {.pci_path = path, .numa_node = -1};
  return made;
}

Properties properties_of(int device) {
  Properties properties{};
  EXPECT_TRUE(known_properties(device, &properties));
  return properties;
}

class PortProperties : public ::testing::Test {
 protected:
  ~PortProperties() override { set_known_ports({}, {}, 0); }
};

TEST_F(PortProperties, AreThoseOfTheDaemonsPortWithoutRdma) {
  set_known_ports({port("wire", kNear, 25'000), port("virtual", "", 0)}, {}, 7);
  ASSERT_EQ(known_port_count(), 2);
  EXPECT_EQ(std::string(properties_of(0).name), "wire");
  EXPECT_EQ(std::string(properties_of(0).pci_path), kNear);
  EXPECT_EQ(properties_of(0).speed_mbps, 25'000);
  EXPECT_EQ(properties_of(0).latency_us, 7);
  EXPECT_EQ(properties_of(1).pci_path, nullptr);
  EXPECT_EQ(properties_of(1).speed_mbps, 10'000) << "as NCCL assumes of sockets";
}

TEST_F(PortProperties, OfADeviceThatIsNotThereAreRefusedWithALine) {
  set_known_ports({port("wire", kNear, 25'000)}, {}, 0);
  Properties properties{};
  set_logger(nullptr);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(known_properties(1, &properties));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "NET/Lyre : device 1 does not exist: number of devices: 1\n");
}

TEST_F(PortProperties, TheNumberOfPortsOfTheFirstInitIsKept) {
  const std::vector<lyre_port> one = {port("wire", kNear, 25'000)};
  EXPECT_EQ(first_port_count(), 0);
  set_known_ports(one, {}, 0);
  set_known_ports({one[0], port("virtual", "", 0)}, {}, 0);
  EXPECT_EQ(known_port_count(), 2);
  EXPECT_EQ(first_port_count(), 1);
}

TEST_F(PortProperties, TheNumberIsThatOfTheNextInitAfterItWasForgotten) {
  const std::vector<lyre_port> two = {port("wire", kNear, 25'000), port("virtual", "", 0)};
  set_known_ports(two, {}, 0);
  forget_first_port_count();
  EXPECT_EQ(first_port_count(), 0);
  EXPECT_EQ(known_port_count(), 2) << "the process has used a daemon";
  set_known_ports({two[0]}, {}, 0);
  set_known_ports(two, {}, 0);
  EXPECT_EQ(first_port_count(), 1);
}

TEST_F(PortProperties, HaveTheSpeedOfTheRdmaPortThatIsNear) {
  set_known_ports({port("a", kNear, 25'000), port("b", kFar, 25'000)},
                  {rdma_port(kFar, 100'000), rdma_port(kNear, 10'000)}, 0);
  EXPECT_EQ(properties_of(0).speed_mbps, 25'000) << "never slower than without it";
  EXPECT_EQ(properties_of(1).speed_mbps, 100'000);
}

TEST_F(PortProperties, OfAVirtualPortAreWhereItsRdmaPortIs) {
  set_known_ports({port("virtual", "", 0)}, {rdma_port(kFar, 100'000)}, 0);
  EXPECT_EQ(std::string(properties_of(0).pci_path), kFar);
  EXPECT_EQ(properties_of(0).speed_mbps, 100'000);
}

}  // namespace
}  // namespace lyre::nccl_adapter
