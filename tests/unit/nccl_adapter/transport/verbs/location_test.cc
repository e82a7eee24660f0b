#include "nccl_adapter/transport/verbs/location.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace lyre::nccl_adapter {
namespace {

using ::testing::ElementsAre;

const Location kVirtual{};

Location at(const char* path, int node) {
  return {.pci_path = std::string("/sys/devices/") + path, .numa_node = node};
}

// A folder with the form of sysfs.
class DeviceLocations : public ::testing::Test {
 protected:
  DeviceLocations() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lyre-sys-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    function_ = root_ / "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0";
    std::filesystem::create_directories(function_ / "virtio3");
    std::ofstream(function_ / "numa_node") << "1\n";
  }
  ~DeviceLocations() override { std::filesystem::remove_all(root_); }
  std::string link_to(const std::filesystem::path& target) {
    const std::filesystem::path link = root_ / "device";
    std::filesystem::remove(link);
    std::filesystem::create_directory_symlink(target, link);
    return link;
  }

  std::filesystem::path root_;
  std::filesystem::path function_;
};

TEST_F(DeviceLocations, AreThePciFunctionAndItsNode) {
  const Location function{.pci_path = std::filesystem::canonical(function_), .numa_node = 1};
  EXPECT_EQ(location_of(link_to(function_)), function);
  EXPECT_EQ(location_of(link_to(function_ / "virtio3")), function);
}

TEST_F(DeviceLocations, OfVirtualDevicesAreNone) {
  EXPECT_EQ(location_of(link_to(root_ / "devices")), kVirtual);
  EXPECT_EQ(location_of(root_ / "nothing"), kVirtual);
}

TEST_F(DeviceLocations, OfPortsAreWhatTheDaemonSays) {
  lyre_port port{};
  EXPECT_EQ(location_of(port), kVirtual);
  std::strcpy(port.pci_path, function_.c_str());
  EXPECT_EQ(location_of(port), (Location{.pci_path = function_, .numa_node = 1}));
}

TEST(Nearness, IsTheFunctionThenTheRootPortThenTheNode) {
  const Location nic = at("pci0000:3a/0000:3a:00.0/0000:3b:00.0", 0);
  const Location other_function = at("pci0000:3a/0000:3a:00.0/0000:3b:00.1", 0);
  const Location same_node = at("pci0000:10/0000:10:00.0/0000:11:00.0", 0);
  const Location far = at("pci0000:90/0000:90:00.0/0000:91:00.0", 1);
  EXPECT_GT(nearness(nic, nic), nearness(nic, other_function));
  EXPECT_GT(nearness(nic, other_function), nearness(nic, same_node));
  EXPECT_GT(nearness(nic, same_node), nearness(nic, far));
  EXPECT_EQ(nearness(nic, far), 0);
  EXPECT_EQ(nearness(kVirtual, kVirtual), 0) << "nothing is known of them";
  EXPECT_EQ(nearness(at("pci0000:00/0000:00:10.0", -1), at("pci0000:00/0000:00:11.0", -1)), 0)
      << "the root complex is no place";
}

TEST(Dealing, GivesADeviceToTheRailThatIsNear) {
  const std::vector<Location> rails = {at("pci0000:10/0000:10:00.0/0000:11:00.0", 0),
                                       at("pci0000:90/0000:90:00.0/0000:91:00.0", 1)};
  const std::vector<Location> devices = {at("pci0000:90/0000:90:00.0/0000:91:00.1", 1),
                                         at("pci0000:20/0000:20:00.0/0000:21:00.0", 0)};
  EXPECT_THAT(deal(devices, rails), ElementsAre(1, 0));
}

TEST(Dealing, GoesInTurnWhereNothingIsKnown) {
  const std::vector<Location> rails(2);
  EXPECT_THAT(deal(std::vector<Location>(5), rails), ElementsAre(0, 1, 0, 1, 0));
}

TEST(Dealing, GivesEquallyNearRailsTheSameNumber) {
  const std::vector<Location> rails = {at("pci0000:10/0000:10:00.0", 0),
                                       at("pci0000:20/0000:20:00.0", 0),
                                       at("pci0000:90/0000:90:00.0", 1)};
  const std::vector<Location> devices(3, at("pci0000:30/0000:30:00.0", 0));
  EXPECT_THAT(deal(devices, rails), ElementsAre(0, 1, 0));
}

}  // namespace
}  // namespace lyre::nccl_adapter
