#include "stack/io/dpdk/free_hugepages.h"

#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"

namespace lyre::io::dpdk {
namespace {

constexpr char kLacks[] =
    "hugepages of 2 MiB are required and none is free: see "
    "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

class FreeHugepages : public ::testing::Test {
 protected:
  void set(const std::string& size, int reserved, int free) {
    const std::string folder = "sys/kernel/mm/hugepages/hugepages-" + size;
    tree_.write(folder + "/nr_hugepages", std::to_string(reserved) + "\n");
    tree_.write(folder + "/free_hugepages", std::to_string(free) + "\n");
  }
  uint64_t free_mib() const { return free_hugepages_mib(tree_.roots().sys); }
  std::string lacks() const { return lacks_hugepages(tree_.roots().sys); }

  machine::Tree tree_;
};

// Pages of 1 GiB counted, and the pools were in ordinary ones though hugepages were required.
TEST_F(FreeHugepages, AreThoseOfTheSizeOfPools) {
  EXPECT_EQ(free_mib(), 0u);
  set("1048576kB", 4, 4);
  EXPECT_EQ(free_mib(), 0u);
  set("2048kB", 200, 192);
  EXPECT_EQ(free_mib(), 384u);
}

TEST_F(FreeHugepages, TheRefusalNamesSizeAndFile) {
  EXPECT_EQ(lacks(), kLacks);
  set("2048kB", 100, 0);
  EXPECT_EQ(lacks(), kLacks) << "another process has them";
}

TEST_F(FreeHugepages, TheRefusalNamesWhatIsReservedInVain) {
  set("2048kB", 0, 0);
  set("1048576kB", 4, 0);
  set("524288kB", 2, 2);
  set("64kB", 1, 1);
  set("32768kB", 0, 0);
  EXPECT_EQ(lacks(),
            std::string(kLacks) + "; pages of other sizes are not used: 64 KiB, 512 MiB, 1 GiB");
}

}  // namespace
}  // namespace lyre::io::dpdk
