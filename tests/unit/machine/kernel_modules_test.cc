#include "machine/kernel_modules.h"

#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"

namespace lyre::machine {
namespace {

class KernelModulesTest : public ::testing::Test {
 protected:
  bool is_there(const std::string& driver) const {
    return is_driver_available(driver, tree_.roots(), tree_.path("modules"));
  }

  Tree tree_;
};

TEST_F(KernelModulesTest, WithoutAnIndexNothingIsMissing) { EXPECT_TRUE(is_there("igb_uio")); }

TEST_F(KernelModulesTest, ThoseOfTheIndexAreAvailable) {
  tree_.write("modules/modules.dep",
              "kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/drivers/vfio/vfio.ko.xz\n"
              "kernel/drivers/uio/uio_pci_generic_other.ko: kernel/drivers/uio/igb_uio.ko\n");
  EXPECT_TRUE(is_there("vfio-pci"));
  EXPECT_FALSE(is_there("uio_pci_generic")) << "another name begins so";
  EXPECT_FALSE(is_there("igb_uio")) << "it stands behind a colon";
  tree_.write("modules/modules.builtin", "kernel/drivers/uio/uio_pci_generic.ko\n");
  EXPECT_TRUE(is_there("uio_pci_generic"));
}

TEST_F(KernelModulesTest, ThoseThatAreLoadedAreAvailable) {
  tree_.write("modules/modules.dep", "");
  for (const char* driver : {"vfio-pci", "igb_uio", "uio_hv_generic"}) {
    EXPECT_FALSE(is_there(driver)) << driver;
  }
  tree_.write("sys/module/vfio_pci/refcnt", "0\n");
  tree_.write("sys/bus/pci/drivers/igb_uio/new_id", "");
  tree_.write("sys/bus/vmbus/drivers/uio_hv_generic/new_id", "");
  for (const char* driver : {"vfio-pci", "igb_uio", "uio_hv_generic"}) {
    EXPECT_TRUE(is_there(driver)) << driver;
  }
}

TEST_F(KernelModulesTest, ThePackageOfMoreModulesIsOfUbuntuAndSystemsLikeIt) {
  EXPECT_EQ(extra_modules_package(tree_.roots()), "") << "no file";
  for (const char* other : {"ID=debian\n", "NAME=ubuntu\nID=debian\n", "ID=ubuntuish\n"}) {
    tree_.write("etc/os-release", other);
    EXPECT_EQ(extra_modules_package(tree_.roots()), "") << other;
  }
  for (const char* like : {"ID=ubuntu\n", "ID=\"ubuntu\"\n", "ID='ubuntu'\n",
                           "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"}) {
    tree_.write("etc/os-release", like);
    EXPECT_EQ(extra_modules_package(tree_.roots()), "linux-modules-extra-$(uname -r)") << like;
  }
}

TEST_F(KernelModulesTest, TheNewestKernelIsTheOneWithTheHighestNumbers) {
  const auto newer_than = [this](const std::string& release) {
    return newer_kernel(release, tree_.path("modules"));
  };
  EXPECT_EQ(newer_than("6.1.0-9-amd64"), "") << "no folder";
  for (const char* release : {"6.1.0-9-amd64", "6.1.0-10-amd64", "5.10.0-34-amd64"}) {
    tree_.write(std::string("modules/") + release + "/modules.dep", "");
  }
  tree_.write("modules/6.2.0-1-amd64/updates/dkms/igb_uio.ko", "");  // of a kernel that is gone
  EXPECT_EQ(newer_than("6.1.0-9-amd64"), "6.1.0-10-amd64");
  EXPECT_EQ(newer_than("6.1.0-10-amd64"), "");
  EXPECT_EQ(newer_than("6.10.0-1-amd64"), "");
}

}  // namespace
}  // namespace lyre::machine
