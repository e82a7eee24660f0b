#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"
#include "tests/unit/tools/expect_finding.h"
#include "tools/lyre/doctor/machine_checks.h"

namespace lyre::tools {
namespace {

using ::testing::StartsWith;

/// A NIC that goes to uio_pci_generic, which is not loaded.
class DoctorModules : public ::testing::Test {
 protected:
  DoctorModules() { tree_.add_nic("0000:00:05.0", "0x1af4 0x1000", "virtio-pci", "eth1"); }
  std::string mend() const {
    const machine::NicGuard guard(tree_.roots());
    const Finding finding = check_driver_modules(tree_.roots(), nic_states(tree_.roots(), guard),
                                                 tree_.path("modules"));
    expect(finding, Verdict::kNote, "none loaded");
    return finding.mend;
  }

  machine::Tree tree_;
};

// modprobe found nothing on the kernels of clouds.
TEST_F(DoctorModules, OneThatTheKernelLacksIsInAPackageOfUbuntu) {
  tree_.write("etc/os-release", "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n");
  tree_.write("modules/modules.dep", "kernel/drivers/uio/uio.ko.zst:\n");
  EXPECT_THAT(mend(), StartsWith("apt install linux-modules-extra-$(uname -r) && "
                                 "modprobe uio_pci_generic"));
  tree_.write("modules/modules.dep", "kernel/drivers/uio/uio_pci_generic.ko.zst:\n");
  EXPECT_THAT(mend(), StartsWith("modprobe uio_pci_generic"));
}

TEST_F(DoctorModules, OneThatTheKernelLacksElsewhere) {
  tree_.write("etc/os-release", "ID=debian\n");
  tree_.write("modules/modules.dep", "kernel/drivers/uio/uio.ko.zst:\n");
  EXPECT_EQ(mend(), "a kernel that has the module uio_pci_generic");
}

}  // namespace
}  // namespace lyre::tools
