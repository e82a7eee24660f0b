#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"
#include "tools/lyre/doctor/machine_checks.h"

namespace lyre::tools {
namespace {

using ::testing::HasSubstr;

class DoctorIommu : public ::testing::Test {
 protected:
  Finding look() {
    const machine::NicGuard guard(tree_.roots());
    return check_iommu(tree_.roots(), nic_states(tree_.roots(), guard), "x86_64");
  }
  void expect(Verdict verdict, const std::string& saw) {
    const Finding finding = look();
    EXPECT_EQ(finding.verdict, verdict) << finding.saw;
    EXPECT_THAT(finding.saw, HasSubstr(saw));
    EXPECT_EQ(finding.why.empty(), verdict == Verdict::kFine);
    EXPECT_EQ(finding.mend.empty(), verdict == Verdict::kFine);
  }
  void add_nic_with_iommu(const std::string& address, const std::string& driver) {
    tree_.add_nic(address, "0x8086 0x154c", driver, "");
    tree_.link("sys/bus/pci/devices/" + address + "/iommu_group",
               "sys/kernel/iommu_groups/" + address);
  }

  /// The capability register of the unit of a device.
  void set_unit(const std::string& address, const std::string& capabilities) {
    tree_.write("sys/bus/pci/devices/" + address + "/iommu/intel-iommu/cap", capabilities);
  }

  machine::Tree tree_;
};

TEST_F(DoctorIommu, IsCountedByItsGroups) {
  expect(Verdict::kFine, "no NIC that needs one");
  tree_.add_nic("0000:00:05.0", "0x1af4 0x1000", "virtio-pci", "eth1");
  expect(Verdict::kNote, "none");
  add_nic_with_iommu("0000:00:06.0", "i40e");
  expect(Verdict::kFine, "1 groups");
}

/// The capability register of QEMU's intel-iommu, with aw-bits=48 and with 39, its default.
constexpr char kWide[] = "d2008c222f0686\n";
constexpr char kNarrow[] = "d2008c22260286\n";

TEST_F(DoctorIommu, MustTranslateTheAddressesOfAProcess) {
  add_nic_with_iommu("0000:00:06.0", "i40e");
  set_unit("0000:00:06.0", kWide);
  expect(Verdict::kFine, "1 groups");
  set_unit("0000:00:06.0", kNarrow);
  expect(Verdict::kNote, "0000:00:06.0: addresses of 39 bits");
  add_nic_with_iommu("0000:00:07.0", "vfio-pci");
  set_unit("0000:00:07.0", kNarrow);
  expect(Verdict::kProblem, "0000:00:07.0: addresses of 39 bits");
  EXPECT_THAT(look().mend, HasSubstr("aw-bits=48"));
}

// On desktops the graphics device has a narrow one of its own.
TEST_F(DoctorIommu, MayBeNarrowForAnotherDevice) {
  add_nic_with_iommu("0000:00:06.0", "vfio-pci");
  set_unit("0000:00:06.0", kWide);
  set_unit("0000:00:02.0", kNarrow);
  tree_.write("sys/class/iommu/dmar0/intel-iommu/cap", kNarrow);
  expect(Verdict::kFine, "1 groups");
}

// mlx5 stays with its kernel driver.
TEST_F(DoctorIommu, MayBeNarrowForANicThatDoesNotGoToVfio) {
  tree_.add_nic("0000:00:08.0", "0x15b3 0x101a", "mlx5_core", "");
  tree_.link("sys/bus/pci/devices/0000:00:08.0/iommu_group", "sys/kernel/iommu_groups/8");
  set_unit("0000:00:08.0", kNarrow);
  expect(Verdict::kFine, "1 groups");
}

// It was told to be bound to vfio-pci, where lyred would wait for its answer for ever.
TEST_F(DoctorIommu, IsBypassedByAVirtioNicThatTheHostGaveNone) {
  const std::string folder = "sys/bus/pci/devices/0000:00:09.0/";
  tree_.add_nic("0000:00:09.0", "0x1af4 0x1041", "virtio-pci", "");
  tree_.link(folder + "iommu_group", "sys/kernel/iommu_groups/9");
  const auto mend = [&](const std::string& features) {
    tree_.write(folder + "virtio1/features", features + "\n");
    const machine::NicGuard guard(tree_.roots());
    return check_nics(nic_states(tree_.roots(), guard)).at(0).mend;
  };
  EXPECT_THAT(mend("0000010000000000000000000000000011"), HasSubstr("vfio-pci, it is behind"));
  EXPECT_THAT(mend("0000010000000000000000000000000010"),
              HasSubstr("uio_pci_generic, it bypasses the IOMMU: its host has it without "
                        "iommu_platform=on"));
}

// An ENA behind none would be bound to igb_uio.
TEST_F(DoctorIommu, DoesNotMatterForTheModuleOfANicThatIsBound) {
  const auto modules = [this] {
    const machine::NicGuard guard(tree_.roots());
    return check_driver_modules(tree_.roots(), nic_states(tree_.roots(), guard),
                                tree_.path("modules"));
  };
  tree_.add_nic("0000:00:05.0", "0x1d0f 0xec20", "uio_pci_generic", "");
  tree_.add_nic("0000:00:06.0", "0x1d0f 0xec20", "vfio-pci", "");
  EXPECT_EQ(modules().verdict, Verdict::kFine) << modules().mend;
  tree_.add_nic("0000:00:07.0", "0x1d0f 0xec20", "ena", "eth1");
  EXPECT_EQ(modules().verdict, Verdict::kNote);
  EXPECT_THAT(modules().mend, HasSubstr("igb_uio"));
}

}  // namespace
}  // namespace lyre::tools
