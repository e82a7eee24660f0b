#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"
#include "tests/unit/tools/expect_finding.h"
#include "tools/lyre/doctor/machine_checks.h"

namespace lyre::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class DoctorLockdown : public ::testing::Test {
 protected:
  Finding look() const {
    const machine::NicGuard guard(tree_.roots());
    return check_lockdown(tree_.roots(), nic_states(tree_.roots(), guard));
  }
  void set_modes(const std::string& modes) {
    tree_.write("sys/kernel/security/lockdown", modes + "\n");
  }
  void add_virtio(const std::string& driver) {
    tree_.add_nic("0000:00:05.0", "0x1af4 0x1000", driver, "");
  }
  void put_behind_iommu(const std::string& address) {
    tree_.link("sys/bus/pci/devices/" + address + "/iommu_group", "sys/kernel/iommu_groups/3");
  }

  machine::Tree tree_;
};

TEST_F(DoctorLockdown, IsOffWhereTheKernelSaysSoOrSaysNothing) {
  add_virtio("uio_pci_generic");
  expect(look(), Verdict::kFine, "none");
  set_modes("[none] integrity confidentiality");
  expect(look(), Verdict::kFine, "none");
}

TEST_F(DoctorLockdown, KeepsANicFromBeingDrivenWithoutVfio) {
  set_modes("none [integrity] confidentiality");
  add_virtio("virtio-pci");
  expect(look(), Verdict::kNote, "integrity: 0000:00:05.0 would go to uio_pci_generic");
  EXPECT_THAT(look().mend, HasSubstr("Secure Boot"));
  tree_.add_nic("0000:00:06.0", "0x1d0f 0xec20", "igb_uio", "");
  expect(look(), Verdict::kProblem, "0000:00:06.0 is on igb_uio");
  set_modes("none integrity [confidentiality]");
  expect(look(), Verdict::kProblem, "confidentiality: 0000:00:06.0");
  put_behind_iommu("0000:00:06.0");
  EXPECT_THAT(look().mend, StartsWith("lyre nic bind 0000:00:06.0 --driver vfio-pci"));
}

TEST_F(DoctorLockdown, DoesNotMatterToVfioAndKernelDrivers) {
  set_modes("none [integrity] confidentiality");
  expect(look(), Verdict::kFine, "no NIC that it matters to");
  tree_.add_nic("0000:00:07.0", "0x8086 0x154c", "i40e", "eth2");
  put_behind_iommu("0000:00:07.0");
  tree_.add_nic("0000:00:08.0", "0x15b3 0x1019", "mlx5_core", "eth3");
  add_virtio("vfio-pci");
  expect(look(), Verdict::kFine, "integrity, and no NIC");
}

}  // namespace
}  // namespace lyre::tools
