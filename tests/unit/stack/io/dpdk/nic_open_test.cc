#include "stack/io/dpdk/nic_open.h"

#include <gtest/gtest.h>

namespace lyre::io::dpdk {
namespace {

constexpr const char* kNic = "vmbus:6045bd7a-8d7c-6045-bd7a-8d7c6045bd7a";

// Each start of the daemon said that a restart would help.
TEST(NicOpen, ANicOfTheVmbusThatDpdkCouldNotOpenIsNamedWithTheCause) {
  EXPECT_EQ(netvsc_missing(kNic, Opening::kFirst, "vmbus: Cannot open /dev/uio0").text,
            std::string(kNic) +
                ": DPDK could not open it, and said first: vmbus: Cannot open "
                "/dev/uio0");
  EXPECT_EQ(netvsc_missing(kNic, Opening::kFirst, "").text,
            std::string(kNic) + ": DPDK could not open it");
}

TEST(NicOpen, ANicOfTheVmbusThatWasClosedNeedsARestart) {
  EXPECT_EQ(netvsc_missing(kNic, Opening::kAgain, "an old error").text,
            std::string(kNic) +
                ": DPDK opens a NIC of the VMbus only when it starts, and this one "
                "was closed: restart the daemon");
}

TEST(NicOpen, ANicOfTheVmbusThatIsNotThereIsNotFound) {
  DeviceArgs args = DeviceArgs::parse(kNic);
  EXPECT_FALSE(open_nic(args, Opening::kFirst).ok());
}

TEST(NicOpen, APortIsToldOfADriverWithoutARow) {
  const DeviceArgs nic = DeviceArgs::parse("0000:00:06.0");
  EXPECT_EQ(driver_warning(nic, "net_unheard_of"),
            "Lyre has no rules for its driver (net_unheard_of): it copies each packet, and the NIC "
            "does not segment");
  EXPECT_EQ(driver_warning(nic, "net_ena"), "");
  EXPECT_EQ(driver_warning(DeviceArgs::parse("net_null0"), "net_null"), "") << "no PCI device";
}

}  // namespace
}  // namespace lyre::io::dpdk
