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

}  // namespace
}  // namespace lyre::machine
