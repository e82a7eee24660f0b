#include "daemon/host/worker_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"

namespace lyre {
namespace {

using testing::ElementsAre;

/// Processors 0 to 3 at node 0, 4 to 7 at node 1; a NIC at node 1.
class WorkerPlacementTest : public testing::Test {
 protected:
  WorkerPlacementTest() {
    for (uint32_t number = 0; number < 8; ++number) {
      const std::string node = number < 4 ? "node0" : "node1";
      tree_.link("sys/devices/system/cpu/cpu" + std::to_string(number) + "/" + node,
                 "sys/devices/system/node/" + node);
    }
    tree_.add_nic("0000:00:06.0", "0x1af4 0x1041", "vfio-pci", "");
  }

  Config placed(const std::string& workers, const std::string& device, uint32_t speed_mbps) {
    auto config = parse_config(
        workers + "[[port]]\nname = \"a\"\ndevice = \"" + device +
            "\"\naddress = \"10.9.0.1/24\"\nspeed_mbps = " + std::to_string(speed_mbps) + "\n",
        "f");
    EXPECT_TRUE(config.ok());
    const std::vector<uint32_t> allowed = {0, 1, 2, 3, 4, 5, 6, 7};
    place_workers(*config, tree_.roots(), allowed);
    return std::move(*config);
  }

  machine::Tree tree_;
};

TEST_F(WorkerPlacementTest, AutoIsAtTheNodeOfTheNic) {
  const Config config = placed("", "0000:00:06.0", 25000);
  EXPECT_THAT(config.cores, ElementsAre(6, 7));
  EXPECT_THAT(config.memory_nodes, ElementsAre(1, 1));
  EXPECT_EQ(placement_text(config), "workers: 2, on cores 6-7; memory of NUMA node 1");
}

TEST_F(WorkerPlacementTest, AutoMayBeLimitedAfterwards) {
  const std::vector<uint32_t> allowed = {0, 1, 2, 3, 4, 5, 6, 7};
  Config config = placed("", "0000:00:06.0", 60000);
  EXPECT_THAT(config.cores, ElementsAre(4, 5, 6, 7));
  EXPECT_TRUE(config.has_chosen_cores);
  place_workers(config, tree_.roots(), allowed, 3);
  EXPECT_THAT(config.cores, ElementsAre(5, 6, 7));
  EXPECT_EQ(config.memory_nodes.size(), 3u);
  EXPECT_EQ(config.other_cores.size(), 3u);

  // As an upgrade does, whose NIC tells no speed.
  place_workers(config, tree_.roots(), allowed, 2, 2);
  EXPECT_THAT(config.cores, ElementsAre(6, 7));
  config.ports[0].speed_mbps = 0;
  place_workers(config, tree_.roots(), allowed, 3, 3);
  EXPECT_THAT(config.cores, ElementsAre(5, 6, 7));

  Config listed = placed("[workers]\ncores = [5, 1]\n", "0000:00:06.0", 60000);
  place_workers(listed, tree_.roots(), allowed, 1);
  EXPECT_THAT(listed.cores, ElementsAre(5, 1)) << "the file names them";
  EXPECT_FALSE(listed.has_chosen_cores);
}

TEST_F(WorkerPlacementTest, CoresOfTheFileStayAndUseTheMemoryOfTheNic) {
  const Config config = placed("[workers]\ncores = [5, 1]\n", "0000:00:06.0", 100000);
  EXPECT_THAT(config.cores, ElementsAre(5, 1));
  EXPECT_THAT(config.memory_nodes, ElementsAre(1, 1));
}

TEST_F(WorkerPlacementTest, WithoutANicEachWorkerUsesItsOwnMemory) {
  const Config config = placed("[workers]\ncores = [5, 1]\n", "net_memif0", 0);
  EXPECT_THAT(config.memory_nodes, ElementsAre(1, 0));
  EXPECT_EQ(placement_text(config), "workers: 2, on cores 1, 5; memory of NUMA nodes 0-1");
  EXPECT_THAT(placed("", "net_memif0", 0).cores, ElementsAre(7));
}

TEST_F(WorkerPlacementTest, AWorkerMayGoToCoresOfItsNode) {
  const Config config = placed("[workers]\ncores = [5, 1]\n", "net_memif0", 0);
  EXPECT_THAT(config.other_cores, ElementsAre(ElementsAre(4, 6, 7), ElementsAre(0, 2, 3)));
}

TEST_F(WorkerPlacementTest, NoWorkerGoesAnywhereWhereTheFileSaysSo) {
  const Config config = placed("[workers]\nleave_busy_cores = false\n", "0000:00:06.0", 25000);
  EXPECT_THAT(config.other_cores, ElementsAre(ElementsAre(), ElementsAre()));
}

}  // namespace
}  // namespace lyre
