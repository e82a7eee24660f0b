#include "machine/core_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"

namespace lyre::machine {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t kMost = 64;

/// `nodes` nodes of `cores` physical cores each, numbered as Linux does: all first hardware threads
/// node by node, then all second ones.
std::vector<Processor> machine_of(uint32_t nodes, uint32_t cores, uint32_t threads) {
  std::vector<Processor> out;
  for (uint32_t number = 0; number < nodes * cores * threads; ++number) {
    const uint32_t core = number % (nodes * cores);
    out.push_back({.number = number, .node = static_cast<int>(core / cores), .core = core});
  }
  return out;
}

std::vector<uint32_t> chosen(const std::vector<Processor>& processors,
                             const std::vector<PortDemand>& ports, uint32_t most = kMost) {
  return choose_cores(processors, ports, most);
}

TEST(CoreChoice, OneWorkerOnTheLastCoreWhereNoSpeedIsKnown) {
  EXPECT_THAT(chosen(machine_of(1, 2, 1), {{}}), ElementsAre(1));
  EXPECT_THAT(chosen(machine_of(1, 8, 1), {{}, {}}), ElementsAre(7));
}

TEST(CoreChoice, AsManyAsTheSpeedAsksFor) {
  const auto cores = machine_of(1, 16, 1);
  EXPECT_THAT(chosen(cores, {{0, kWorkerMbps}}), ElementsAre(15));
  EXPECT_THAT(chosen(cores, {{0, kWorkerMbps + 1}}), ElementsAre(14, 15));
  EXPECT_THAT(chosen(cores, {{0, 100000}}), ElementsAre(9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(chosen(cores, {{0, 10000}, {0, 10000}}), ElementsAre(14, 15)) << "two ports";
}

TEST(CoreChoice, OfTheNodeOfTheNic) {
  const auto cores = machine_of(2, 4, 1);
  EXPECT_THAT(chosen(cores, {{0, 25000}}), ElementsAre(2, 3));
  EXPECT_THAT(chosen(cores, {{1, 25000}}), ElementsAre(6, 7));
  EXPECT_THAT(chosen(cores, {{0, 25000}, {1, 10000}}), ElementsAre(2, 3, 7));
  EXPECT_THAT(chosen(cores, {{1, 10000}, {-1, 10000}}), ElementsAre(6, 7))
      << "a virtual port is served beside the NIC";
}

// An upgrade, which needs as many as there were, while the links are down.
TEST(CoreChoice, WhatOneNodeLacksTheOthersGive) {
  const std::vector<Processor> cores = {{1, 0, 1}, {2, 0, 2}, {3, 1, 3}, {4, 1, 4},
                                        {5, 1, 5}, {6, 1, 6}, {7, 1, 7}, {8, 1, 8}};
  const std::vector<PortDemand> ports = {{.node = 0}, {.node = 1}};
  EXPECT_THAT(choose_cores(cores, ports, 8, 8), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(CoreChoice, NotMoreThanTheNodeHas) {
  EXPECT_THAT(chosen(machine_of(2, 4, 1), {{1, 400000}}), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(chosen(machine_of(1, 8, 1), {{0, 400000}}, 3), ElementsAre(5, 6, 7)) << "limit";
}

TEST(CoreChoice, AWorkerMayGoToProcessorsOfItsNodeThatAreNoWorkers) {
  const auto cores = machine_of(2, 4, 1);
  const std::vector<uint32_t> workers = {2, 3, 7};
  EXPECT_THAT(other_cores(cores, 3, workers, {}), ElementsAre(0, 1));
  EXPECT_THAT(other_cores(cores, 7, workers, {}), ElementsAre(4, 5, 6));
  EXPECT_THAT(other_cores(cores, 7, workers, std::vector<uint32_t>{4, 6}), ElementsAre(5));
}

TEST(CoreChoice, AWorkerGoesToAnotherWorkersCoreWhereAllAreWorkers) {
  const std::vector<uint32_t> workers = {0, 1};
  EXPECT_THAT(other_cores(machine_of(1, 2, 1), 0, workers, {}), ElementsAre(1));
  EXPECT_THAT(other_cores(machine_of(1, 1, 1), 0, workers, {}), IsEmpty());
  EXPECT_THAT(other_cores(machine_of(1, 2, 1), 5, workers, {}), IsEmpty()) << "not one of them";
}

TEST(CoreChoice, NeverProcessorZeroWhereThereIsAnother) {
  EXPECT_THAT(chosen(machine_of(1, 4, 1), {{0, 400000}}), ElementsAre(1, 2, 3));
  EXPECT_THAT(chosen(machine_of(2, 1, 1), {{0, 10000}}), ElementsAre(1)) << "on another node";
  EXPECT_THAT(chosen(machine_of(1, 1, 1), {{0, 10000}}), ElementsAre(0)) << "there is no other";
}

TEST(CoreChoice, PhysicalCoresBeforeSecondThreads) {
  // Cores 0 to 3, their second threads 4 to 7.
  const auto cores = machine_of(1, 4, 2);
  EXPECT_THAT(chosen(cores, {{0, 45000}}), ElementsAre(5, 6, 7));
  EXPECT_THAT(chosen(cores, {{0, 60000}}), ElementsAre(4, 5, 6, 7)) << "beside processor 0";
  EXPECT_THAT(chosen(cores, {{0, 75000}}), ElementsAre(3, 4, 5, 6, 7));
}

TEST(CoreChoice, APowerOfTwoWhereADriverNeedsThat) {
  const auto cores = machine_of(1, 16, 1);
  EXPECT_THAT(chosen(cores, {{0, 100000, true}}), ElementsAre(12, 13, 14, 15)) << "not seven";
  EXPECT_THAT(chosen(cores, {{0, 60000, true}}), ElementsAre(12, 13, 14, 15));
  EXPECT_THAT(chosen(machine_of(1, 4, 1), {{0, 100000, true}}), ElementsAre(2, 3)) << "not three";
  EXPECT_THAT(chosen(machine_of(2, 4, 1), {{0, 30000, true}, {1, 10000}}), ElementsAre(3, 7))
      << "one of each node";
}

/// Workers at each node, where the NICs of `ports` are on machine_of(nodes, cores, threads).
std::vector<uint32_t> workers_at_nodes(uint32_t nodes, uint32_t cores, uint32_t threads,
                                       const std::vector<PortDemand>& ports,
                                       uint32_t most = kMost) {
  std::vector<uint32_t> out(nodes);
  for (const uint32_t number : chosen(machine_of(nodes, cores, threads), ports, most)) {
    ++out[number % (nodes * cores) / cores];
  }
  return out;
}

/// `count` ports of that speed, which are on `nodes` nodes in turn.
std::vector<PortDemand> ports_on(uint32_t nodes, uint32_t count, uint32_t mbps) {
  std::vector<PortDemand> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back({static_cast<int>(i % nodes), mbps});
  return out;
}

// The last nodes had none.
TEST(CoreChoice, NodesShareTheLimit) {
  EXPECT_THAT(workers_at_nodes(2, 48, 2, ports_on(2, 8, 400000)), ElementsAre(32, 32));
  EXPECT_THAT(workers_at_nodes(8, 24, 1, ports_on(8, 8, 200000)), Each(8));
  EXPECT_THAT(workers_at_nodes(2, 56, 2, ports_on(2, 8, 200000)), ElementsAre(32, 32));
}

TEST(CoreChoice, SharesAreInProportionToWhatIsAskedFor) {
  const std::vector<PortDemand> ports = {{0, 800000}, {1, 100000}, {2, 400000}, {3, 200000}};
  const std::vector<uint32_t> got = workers_at_nodes(4, 60, 1, ports);
  const double sum = 54 + 7 + 27 + 14;
  const std::vector<double> wanted = {54, 7, 27, 14};
  uint32_t total = 0;
  for (size_t node = 0; node < got.size(); ++node) {
    EXPECT_NEAR(got[node], kMost * wanted[node] / sum, 1) << node;
    total += got[node];
  }
  EXPECT_EQ(total, kMost);
}

// An upgrade needs as many as the running daemon has, also while a link is down and has no speed.
TEST(CoreChoice, AtLeastSoManyAsFarAsTheNodesHaveThem) {
  const std::vector<PortDemand> two = {{0}, {1}};
  EXPECT_THAT(choose_cores(machine_of(2, 4, 1), two, 4, 4), ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(choose_cores(machine_of(2, 4, 1), two, 3, 3), ElementsAre(2, 3, 7));
  const std::vector<PortDemand> one = {{0}};
  EXPECT_THAT(choose_cores(machine_of(2, 4, 1), one, 4, 4), ElementsAre(1, 2, 3));
}

TEST(CoreChoice, EachNodeOfANicHasOne) {
  EXPECT_THAT(workers_at_nodes(3, 100, 1, {{0, 1500000}, {1, 10000}, {2, 10000}}),
              ElementsAre(62, 1, 1));
  EXPECT_THAT(workers_at_nodes(3, 4, 1, {{0, 10000}, {1, 10000}, {2, 10000, true}}),
              ElementsAre(1, 1, 0))
      << "a power of two";
}

TEST(CoreChoice, ANodeWithFewProcessorsLeavesTheRestToTheOthers) {
  const auto all = machine_of(2, 40, 1);
  std::vector<Processor> allowed(all.begin() + 35, all.end());
  EXPECT_EQ(chosen(allowed, {{0, 800000}, {1, 800000}}, 40).size(), 40u);
  EXPECT_THAT(chosen(allowed, {{0, 800000}, {1, 800000}}, 12),
              ElementsAre(35, 36, 37, 38, 39, 73, 74, 75, 76, 77, 78, 79));
}

TEST(CoreChoice, OnlyOfThoseThatAreAllowed) {
  const auto all = machine_of(2, 4, 1);
  const std::vector<Processor> allowed = {all[1], all[2], all[5]};
  EXPECT_THAT(chosen(allowed, {{1, 100000}}), ElementsAre(5));
  EXPECT_THAT(chosen({all[1], all[2]}, {{1, 100000}}), ElementsAre(2)) << "none at its node";
}

TEST(MemoryNode, IsTheNicsWhereThatIsOne) {
  const auto node = [](const std::vector<PortDemand>& ports, int worker) {
    return memory_node(ports, worker);
  };
  EXPECT_EQ(node({{1, 0}, {1, 0}, {-1, 0}}, 0), 1);
  EXPECT_EQ(node({{0, 0}, {1, 0}}, 1), 1);
  EXPECT_EQ(node({{0, 0}, {1, 0}}, 0), 0);
  EXPECT_EQ(node({{-1, 0}}, 1), 1) << "no NIC";
}

TEST(PortDemand, IsWhatTheKernelSaysOfTheNic) {
  Tree tree;
  tree.add_nic("0000:00:05.0", "0x15b3 0x101e", "mlx5_core", "eth1");
  tree.add_nic("0000:00:06.0", "0x1d0f 0xec20", "vfio-pci", "");
  tree.write("sys/class/net/eth1/speed", "25000\n");
  const auto demand = [&](const std::string& device, uint32_t known) {
    return demand_of(tree.roots(), device, known);
  };
  EXPECT_EQ(demand("0000:00:05.0", 0).node, 1);
  EXPECT_EQ(demand("0000:00:05.0", 0).speed_mbps, 25000u);
  EXPECT_EQ(demand("0000:00:05.0", 100000).speed_mbps, 100000u) << "the configuration knows better";
  EXPECT_EQ(demand("0000:00:06.0,x=1", 0).speed_mbps, 0u) << "the kernel does not have it";
  EXPECT_EQ(demand("0000:00:06.0,x=1", 0).node, 1);
  EXPECT_EQ(demand("net_af_packet0,iface=eth1", 0).node, 1);
  EXPECT_EQ(demand("net_af_packet0,iface=eth1", 0).speed_mbps, 25000u);
  EXPECT_EQ(demand("net_memif0,socket=/run/x", 0).node, -1);
  tree.add_nic("0000:00:07.0", "0x1414 0x00ba", "mana", "");
  tree.add_nic("0000:00:08.0", "0x8086 0x10ed", "vfio-pci", "");
  EXPECT_FALSE(demand("0000:00:05.0", 0).needs_power_of_two);
  EXPECT_TRUE(demand("0000:00:07.0", 0).needs_power_of_two) << "MANA";
  EXPECT_TRUE(demand("0000:00:08.0", 0).needs_power_of_two) << "a VF of the 82599";
  tree.add_nic("0000:00:09.0", "0x15ad 0x07b0", "vfio-pci", "");
  EXPECT_TRUE(demand("0000:00:09.0", 0).needs_power_of_two) << "vmxnet3";
  tree.write("sys/class/net/eth1/speed", "-1\n");
  EXPECT_EQ(demand("0000:00:05.0", 0).speed_mbps, 0u) << "unknown";
}

TEST(Processors, AreAsTheKernelShowsThem) {
  Tree tree;
  for (const char* number : {"2", "3", "10"}) {
    const std::string folder = std::string("sys/devices/system/cpu/cpu") + number;
    tree.write(folder + "/topology/thread_siblings_list",
               std::string(number) == "3" ? "3\n" : "2,10\n");
  }
  tree.link("sys/devices/system/cpu/cpu2/node1", "sys/devices/system/node/node1");
  tree.link("sys/devices/system/cpu/cpu10/node1", "sys/devices/system/node/node1");
  const std::vector<uint32_t> allowed = {2, 3, 10, 11};
  const auto seen = processors(tree.roots(), allowed);
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[0].node, 1);
  EXPECT_EQ(seen[1].node, 0) << "the kernel names none";
  EXPECT_EQ(seen[1].core, 3u);
  EXPECT_EQ(seen[2].core, 2u);
  EXPECT_EQ(seen[3].core, 11u) << "the kernel names no siblings";
}

TEST(Processors, ListsAreTheKernels) {
  EXPECT_THAT(numbers_of_list("0-2,8,10-11"), ElementsAre(0, 1, 2, 8, 10, 11));
  EXPECT_THAT(numbers_of_list(""), IsEmpty());
  for (const char* wrong : {"x", "1-", "3-1", "1,,2", "0-99999999", "1;2"}) {
    EXPECT_THAT(numbers_of_list(wrong), IsEmpty()) << wrong;
  }
  EXPECT_EQ(list_of_numbers(std::vector<uint32_t>{0, 1, 2, 8, 10, 11}), "0-2, 8, 10-11");
}

}  // namespace
}  // namespace lyre::machine
