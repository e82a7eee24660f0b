#include "daemon/ports/port_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stack/base/ipv6_address.h"
#include "tests/unit/daemon/captured_log.h"
#include "tests/unit/daemon/fake_workers.h"
#include "tests/unit/daemon/sim_backend.h"

namespace lyre {
namespace {

using ::testing::HasSubstr;

constexpr char kTwoPorts[] =
    "[[port]]\nname = \"rail0\"\ndevice = \"sim0\"\naddress = \"10.9.0.1/24\"\n"
    "[[port]]\nname = \"rail1\"\ndevice = \"sim1\"\nmtu = 9000\n"
    "address = [\"10.9.1.1/24\", \"fd00:9::1/64\"]\n";

const std::vector<PortRecord> kEarlier{
    {.device = "sim0", .mac = {{2, 0, 0, 0, 0, 1}}, .rss_key = {}},
    {.device = "sim1", .mac = {{2, 0, 0, 0, 0, 2}}, .rss_key = {1, 2, 3, 4}}};

Config config_of(const std::string& text) {
  auto config = parse_config(text, "f.toml");
  EXPECT_TRUE(config.ok()) << config.error().text;
  return *config;
}

class PortSetTest : public ::testing::Test {
 protected:
  explicit PortSetTest(const std::string& text = kTwoPorts) : config_(config_of(text)) {}

  Status open() { return ports_.open(backend_, memories_); }

  const Config config_;
  SimBackend::Ports states_;
  SimBackend backend_{states_};
  io::sim::Memory memory_a_{{.rx_slots = 16, .frame_bytes = 9018}};
  io::sim::Memory memory_b_{{.rx_slots = 16, .frame_bytes = 9018}};
  std::vector<io::PacketMemory*> memories_{&memory_a_, &memory_b_};
  PortSet ports_{config_};
};

TEST_F(PortSetTest, OpensEachPortAsTheConfigurationHasIt) {
  ASSERT_TRUE(open().ok());
  ASSERT_EQ(ports_.count(), 2u);
  EXPECT_EQ(states_[1]->options.device, "sim1");
  EXPECT_EQ(states_[1]->options.index, 1);
  EXPECT_EQ(states_[1]->options.mtu_bytes, 9000u);
  EXPECT_EQ(ports_.summary(), "rail0 10.9.0.1, rail1 10.9.1.1");
}

TEST(PortSetNeighboursTest, FollowTheSizeOfTheNetworksOrTheConfiguration) {
  const std::string port = "[[port]]\nname = \"p\"\ndevice = \"sim0\"\n";
  const auto neighbours_of = [&](const std::string& keys) {
    const Config config = config_of(port + keys);
    SimBackend::Ports states;
    SimBackend backend(states);
    io::sim::Memory memory({.rx_slots = 16, .frame_bytes = 1518});
    std::vector<io::PacketMemory*> memories{&memory};
    PortSet ports(config);
    EXPECT_TRUE(ports.open(backend, memories).ok());
    return ports.bindings(0).at(0).neighbours_max;
  };
  EXPECT_EQ(neighbours_of("address = \"10.9.0.1/24\"\n"), 1024u + 256u);
  EXPECT_EQ(neighbours_of("address = [\"10.9.0.1/24\", \"10.16.0.1/20\"]\n"), 1024u + 256u + 4096u);
  EXPECT_EQ(neighbours_of("address = \"10.9.0.1/8\"\n"), 16384u);
  EXPECT_EQ(neighbours_of("address = \"fd00::1/64\"\n"), 16384u);
  EXPECT_EQ(neighbours_of("address = \"10.9.0.1/8\"\nneighbours = 200\n"), 200u);
}

// Workers derive it, and ended the daemon. Simulated ports have one MAC address.
TEST(PortSetLinkLocalTest, ThatOfAnotherPortOrOfARouterIsRefused) {
  const auto error_of = [&](const std::string& text) {
    const Config config = config_of(text);
    SimBackend::Ports states;
    SimBackend backend(states);
    io::sim::Memory memory({.rx_slots = 16, .frame_bytes = 1518});
    std::vector<io::PacketMemory*> memories{&memory};
    PortSet ports(config);
    const Status opened = ports.open(backend, memories);
    return opened.ok() ? std::string() : opened.error().text;
  };
  const std::string first = "[[port]]\nname=\"a\"\ndevice=\"sim0\"\naddress=\"fd00:9::1/64\"\n";
  const std::string second = "[[port]]\nname=\"b\"\ndevice=\"sim1\"\naddress=";
  EXPECT_EQ(error_of(first), "");
  EXPECT_THAT(error_of(first + second + "\"fd00:8::1/64\"\n"),
              AllOf(HasSubstr("f.toml:5: port 'b': its link-local address fe80::ff:fe00:5101"),
                    HasSubstr("is that of 'a', allowed: another MAC address")));
  EXPECT_EQ(error_of(first + second + "[\"fd00:8::1/64\", \"fe80::8/64\"]\n"), "");
  EXPECT_EQ(error_of(first + second + "\"10.9.0.1/24\"\n"), "");
  EXPECT_THAT(error_of(first + "gateway = \"" +
                       address_text(link_local_address({{2, 0, 0, 0, 0x51, 1}})) + "\"\n"),
              HasSubstr("is the gateway of 'a'"));
}

/// Opens a port whose ring takes so many slots of 16. The pool of the configuration has 1024.
std::string error_with_ring(uint32_t slots) {
  const Config config = config_of(
      "[memory]\nrx_slots = 1024\n[[port]]\nname=\"a\"\ndevice=\"ring:" + std::to_string(slots) +
      "\"\naddress=\"10.9.0.1/24\"\n");
  SimBackend::Ports states;
  SimBackend backend(states);
  io::sim::Memory memory({.rx_slots = 1024, .frame_bytes = 1518});
  std::vector<io::PacketMemory*> memories{&memory};
  PortSet ports(config);
  const Status opened = ports.open(backend, memories);
  EXPECT_EQ(states[0]->options.rx_slots_max, 512u) << "half of the pool, of each of the ports";
  return opened.ok() ? "" : opened.error().text;
}

// The daemon ran without a slot for any session.
TEST(PortSetSlotsTest, RingsThatLeaveSessionsTooLittleAreRefused) {
  EXPECT_EQ(error_with_ring(768), "");
  EXPECT_EQ(error_with_ring(769),
            "f.toml:2: memory.rx_slots: 1024 are too few: the receive rings of the ports hold 769, "
            "allowed: 1025 and more");
}

TEST_F(PortSetTest, EachWorkerHasAQueueOfEachPort) {
  ASSERT_TRUE(open().ok());
  const auto first = ports_.bindings(0);
  const auto second = ports_.bindings(1);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_NE(first[0].io, second[0].io);
  EXPECT_EQ(first[1].addresses.size(), 2u) << "the worker derives the link-local one itself";
  EXPECT_EQ(first[1].mtu_bytes, 9000u);
  EXPECT_EQ(ports_.queues(1), (std::vector<io::PacketIo*>{second[0].io, second[1].io}));
}

struct PortSetWithMarking : PortSetTest {
  PortSetWithMarking() : PortSetTest(std::string(kTwoPorts) + "dscp = 46\nhop_limit = 3\n") {}
};

TEST_F(PortSetWithMarking, WorkersGetTheDscpAndTheHopLimitOfEachPort) {
  ASSERT_TRUE(open().ok());
  for (const uint32_t worker : {0u, 1u}) {
    const auto bindings = ports_.bindings(worker);
    ASSERT_EQ(bindings.size(), 2u);
    EXPECT_EQ(bindings[0].marking.dscp, 0);
    EXPECT_EQ(bindings[0].marking.hop_limit, 64);
    EXPECT_EQ(bindings[1].marking.dscp, 46);
    EXPECT_EQ(bindings[1].marking.hop_limit, 3);
  }
}

TEST_F(PortSetTest, APortWithIpv6HasALinkLocalAddressAndItsGroups) {
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(ports_.addresses_of(0).size(), 1u);
  EXPECT_TRUE(states_[0]->groups.empty());
  const auto addresses = ports_.addresses_of(1);
  ASSERT_EQ(addresses.size(), 3u);
  EXPECT_TRUE(is_ipv6_link_local(addresses[2].address));
  EXPECT_EQ(states_[1]->groups.size(), 3u) << "two solicited-node groups and all nodes";
}

TEST_F(PortSetTest, APortBesideTheKernelHasOnlyTheConfiguredAddresses) {
  ASSERT_TRUE(open().ok());
  states_[1]->info.capabilities.is_beside_kernel = true;
  EXPECT_EQ(ports_.addresses_of(1).size(), 2u);
}

TEST_F(PortSetTest, ClientsAndReadersOfTheStatsSeeTheSame) {
  ASSERT_TRUE(open().ok());
  const auto infos = ports_.infos();
  auto stats = StatsSegment::create({.daemon_name = "t", .worker_count = 2, .port_count = 2});
  ASSERT_TRUE(stats.ok());
  ports_.show(*stats);
  EXPECT_STREQ(infos[1].name, "rail1");
  EXPECT_STREQ(stats->port(1).name, "rail1");
  EXPECT_STREQ(stats->port(1).device, "sim1");
  EXPECT_EQ(stats->port(1).address_count, infos[1].address_count);
  EXPECT_EQ(stats->port(1).is_link_up.load(), 1u);
}

TEST_F(PortSetTest, SpeedsAreThoseOfTheNicAndReadAgainWhenItsLinkComesUp) {
  ASSERT_TRUE(open().ok());
  auto stats = StatsSegment::create({.daemon_name = "t", .worker_count = 2, .port_count = 2});
  ASSERT_TRUE(stats.ok());
  states_[0]->is_up = false;
  ports_.show(*stats);
  EXPECT_EQ(stats->port(0).speed_mbps.load(), 0u);
  FakeWorkers workers(2);
  LinkWatch watch(workers, ports_.links(*stats));
  states_[0]->is_up = true;
  states_[0]->speed = {.port_mbps = 25'000, .flow_mbps = 5'000};
  watch.look();
  EXPECT_EQ(stats->port(0).speed_mbps.load(), 25'000u);
  EXPECT_EQ(stats->port(0).flow_mbps.load(), 5'000u);
  EXPECT_EQ(ports_.infos()[0].speed_mbps, 25'000u);
  EXPECT_EQ(ports_.infos()[0].flow_mbps, 5'000u);
}

TEST_F(PortSetTest, TheStateOfADeviceIsShown) {
  ASSERT_TRUE(open().ok());
  auto stats = StatsSegment::create({.daemon_name = "t", .worker_count = 2, .port_count = 2});
  ASSERT_TRUE(stats.ok());
  CapturedLog log;
  for (const auto state :
       {io::PortState::kRunning, io::PortState::kResetting, io::PortState::kRecovering,
        io::PortState::kAway, io::PortState::kDraining, io::PortState::kRunning}) {
    states_[1]->state = state;
    ports_.look_after_devices(*stats, seconds(1));
    EXPECT_EQ(stats->port(1).state.load(), static_cast<uint32_t>(state));
    EXPECT_EQ(stats->port(0).state.load(), 0u);
  }
  EXPECT_EQ(states_[0]->looks, 6);
  for (const char* news : {"asks for a reset", "resets itself", "is away", "frees nothing",
                           "port rail1: the device runs again"}) {
    EXPECT_TRUE(log.has(news)) << news;
  }
}

struct PortSetWithSpeeds : PortSetTest {
  PortSetWithSpeeds()
      : PortSetTest(
            "[[port]]\nname = \"rail0\"\ndevice = \"sim0\"\naddress = \"10.9.0.1/24\"\n"
            "speed_mbps = 50000\nflow_mbps = 10000\n") {}
};

TEST_F(PortSetWithSpeeds, TheConfigurationKnowsBetter) {
  ASSERT_TRUE(open().ok());
  states_[0]->speed = {.port_mbps = 25'000, .flow_mbps = 5'000};
  EXPECT_EQ(ports_.infos()[0].speed_mbps, 50'000u);
  EXPECT_EQ(ports_.infos()[0].flow_mbps, 10'000u);
}

TEST_F(PortSetTest, OnlyPortsThatNeedItAreRestarted) {
  ASSERT_TRUE(open().ok());
  EXPECT_FALSE(ports_.must_suspend());
  states_[1]->needs_restart = true;
  EXPECT_TRUE(ports_.must_suspend());
  ports_.suspend();
  EXPECT_FALSE(ports_.must_suspend());
  ports_.restart();
  EXPECT_TRUE(ports_.must_resume());
  ports_.resume();
  EXPECT_FALSE(ports_.must_resume());
  EXPECT_EQ(states_[0]->steps, "");
  EXPECT_EQ(states_[1]->steps, "src");
}

TEST_F(PortSetTest, APortThatCannotBeRestartedStaysSuspendedAndTheLogSaysItOnce) {
  ASSERT_TRUE(open().ok());
  states_[1]->needs_restart = true;
  states_[1]->can_restart = false;
  states_[1]->state = io::PortState::kResetting;
  CapturedLog log;
  ports_.suspend();
  ports_.restart();
  ports_.suspend();
  ports_.restart();
  EXPECT_FALSE(ports_.must_resume());
  EXPECT_FALSE(ports_.must_suspend());
  EXPECT_EQ(log.count("port rail1: sim: cannot be opened"), 1u);
  states_[1]->can_restart = true;
  ports_.restart();
  ports_.resume();
  EXPECT_EQ(states_[1]->steps, "srrrc");
}

TEST_F(PortSetTest, APortWaitsForMemoryOnlyAsLongAsItNeedsARestart) {
  ASSERT_TRUE(open().ok());
  states_[1]->waits_for_memory = true;
  EXPECT_FALSE(ports_.waits_for_memory());
  states_[1]->needs_restart = true;
  states_[1]->can_restart = false;
  ports_.suspend();
  ports_.restart();
  EXPECT_TRUE(ports_.waits_for_memory());
  states_[1]->needs_restart = false;
  EXPECT_FALSE(ports_.waits_for_memory());
}

// Clients wait for the control thread meanwhile, and it tells the service manager that it runs.
TEST_F(PortSetTest, OnePortIsRestartedAtATime) {
  ASSERT_TRUE(open().ok());
  for (auto& state : states_) {
    state->needs_restart = true;
    state->can_restart = false;
  }
  ports_.suspend();
  for (int looks = 1; looks <= 4; ++looks) {
    ports_.restart();
    EXPECT_EQ(states_[0]->restarts + states_[1]->restarts, looks);
  }
  EXPECT_EQ(states_[0]->restarts, 2);
}

TEST_F(PortSetTest, PortsAreClosedForAnotherProcessAndOpenedAgain) {
  ASSERT_TRUE(open().ok());
  ports_.close(PortSet::kAll, [] {});
  EXPECT_EQ(states_[0]->steps, "sx");
  EXPECT_FALSE(ports_.must_suspend());
  ports_.reopen([] {});
  EXPECT_EQ(states_[0]->steps, "sxrc");
  EXPECT_EQ(states_[1]->steps, "sxrc");
  EXPECT_FALSE(ports_.must_resume());
}

TEST_F(PortSetTest, SomePortsAreOpenedBeforeTheOthers) {
  ASSERT_TRUE(ports_.open(backend_, memories_, kEarlier, 0b10).ok());
  ASSERT_EQ(states_.size(), 1u);
  EXPECT_EQ(states_[0]->options.index, 1);
  EXPECT_EQ(states_[0]->options.mac, kEarlier[1].mac);
  EXPECT_EQ(states_[0]->options.rss_key, kEarlier[1].rss_key);
  ASSERT_TRUE(ports_.open(backend_, memories_, kEarlier).ok());
  ASSERT_EQ(states_.size(), 2u);
  EXPECT_EQ(states_[1]->options.index, 0);
  EXPECT_TRUE(states_[1]->options.rss_key.empty());
  EXPECT_EQ(ports_.summary(), "rail0 10.9.0.1, rail1 10.9.1.1");
}

// All addresses of all ports were, so a new one was announced as ours without a question.
TEST_F(PortSetTest, OnlyAddressesThatThePredecessorUsedAreVerified) {
  ASSERT_TRUE(ports_.open(backend_, memories_, kEarlier).ok());
  for (const auto& binding : ports_.bindings(0)) EXPECT_TRUE(binding.verified_addresses.empty());
  const std::vector<IpAddress> used{ports_.addresses_of(1).back().address};
  ports_.set_verified({{}, used});
  for (const uint32_t worker : {0u, 1u}) {
    EXPECT_TRUE(ports_.bindings(worker)[0].verified_addresses.empty());
    EXPECT_EQ(ports_.bindings(worker)[1].verified_addresses, used);
  }
}

// The service manager killed a daemon whose upgrade failed: its ports took longer than the
// watchdog.
TEST_F(PortSetTest, EachPortThatIsClosedOrOpenedAgainKeepsTheWatchdogOff) {
  ASSERT_TRUE(open().ok());
  int signs = 0;
  const auto keep_alive = [&] { ++signs; };
  ports_.close(PortSet::kAll, keep_alive);
  EXPECT_EQ(signs, 2);
  ports_.reopen(keep_alive);
  EXPECT_EQ(signs, 4);
}

// Connections went to other workers than before an upgrade.
TEST_F(PortSetTest, TheNextProcessIsToldTheRssKeyOfEachPort) {
  ASSERT_TRUE(open().ok());
  states_[1]->info.rss_key = {1, 2, 3, 4};
  const std::vector<PortRecord> records = ports_.records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_TRUE(records[0].rss_key.empty());
  EXPECT_EQ(records[1].device, "sim1");
  EXPECT_EQ(records[1].mac, states_[1]->info.capabilities.mac);
  EXPECT_EQ(records[1].rss_key, kEarlier[1].rss_key);
}

TEST_F(PortSetTest, PortsThatMustNotBeClosedAreKnown) {
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(ports_.that_free_twice(), 0u);
  states_[1]->info.frees_twice_when_closed = true;
  EXPECT_EQ(ports_.that_free_twice(), 0b10u);
}

TEST_F(PortSetTest, PortsThatAnotherProcessMayHaveMeanwhileStayOpen) {
  ASSERT_TRUE(open().ok());
  ports_.close(0b01, [] {});
  ports_.reopen([] {});
  EXPECT_EQ(states_[0]->steps, "sxrc");
  EXPECT_EQ(states_[1]->steps, "");
}

TEST_F(PortSetTest, WhatWasReceivedIsDropped) {
  ASSERT_TRUE(open().ok());
  io::PacketBuf* packet = nullptr;
  io::sim::Link& wire = *states_[1]->link;
  io::sim::Memory peer({.rx_slots = 16, .frame_bytes = 9018});
  io::PacketIo& other_end = wire.add_queue(1, peer);
  ASSERT_EQ(peer.alloc_tx({&packet, 1}), 1u);
  packet->length = 60;
  ASSERT_EQ(other_end.tx_burst({&packet, 1}), 1u);
  wire.advance(seconds(1));
  ports_.discard_received(memories_);
  EXPECT_EQ(ports_.queues(0)[1]->counters().rx_packets + ports_.queues(1)[1]->counters().rx_packets,
            1u);
  EXPECT_EQ(memory_a_.rx_slots_free(), 16u);
  EXPECT_EQ(memory_b_.rx_slots_free(), 16u);
}

struct PortSetWithSuperPackets : PortSetTest {
  PortSetWithSuperPackets()
      : PortSetTest(
            "[[port]]\nname = \"rail0\"\ndevice = \"sim0\"\naddress = \"10.9.0.1/24\"\n"
            "super_packets = true\n") {}
};

// Only its first slot came back.
TEST_F(PortSetWithSuperPackets, ASuperPacketThatWasReceivedIsDroppedWhole) {
  ASSERT_TRUE(open().ok());
  constexpr uint32_t kRegion = 3;
  const std::vector<uint8_t> payload(20'000);
  io::sim::Memory peer({.rx_slots = 16, .frame_bytes = 9018});
  io::PacketIo& other_end = states_[0]->link->add_queue(1, peer);
  ASSERT_TRUE(peer.add_region(kRegion, {payload.data(), payload.size()}));
  io::PacketBuf* packet = nullptr;
  ASSERT_EQ(peer.alloc_tx({&packet, 1}), 1u);
  packet->length = 14 + 20 + 20;
  std::fill_n(packet->data, packet->length, uint8_t{0});
  packet->pieces[0] = {kRegion, static_cast<uint32_t>(payload.size()), 0};
  packet->piece_count = 1;
  packet->wants_checksums = true;
  packet->l3_bytes = packet->l4_bytes = 20;
  packet->tso_bytes = 1460;
  ASSERT_EQ(other_end.tx_burst({&packet, 1}), 1u);
  states_[0]->link->advance(seconds(1));
  ports_.discard_received(memories_);
  EXPECT_EQ(ports_.queues(0)[0]->counters().rx_packets + ports_.queues(1)[0]->counters().rx_packets,
            1u);
  EXPECT_EQ(memory_a_.rx_slots_free(), 16u);
  EXPECT_EQ(memory_b_.rx_slots_free(), 16u);
}

TEST_F(PortSetTest, AWarningOfAPortIsLoggedOnceAndItsEnd) {
  ASSERT_TRUE(open().ok());
  auto stats = StatsSegment::create({.daemon_name = "t", .worker_count = 2, .port_count = 2});
  ASSERT_TRUE(stats.ok());
  CapturedLog log;
  for (const char* warning : {"", "goes the long way", "goes the long way", "goes nowhere", ""}) {
    states_[0]->info.warning = warning;
    ports_.look_after_devices(*stats, seconds(1));
  }
  EXPECT_EQ(log.count("port rail0: goes the long way"), 1u);
  EXPECT_EQ(log.count("port rail0: goes nowhere"), 1u);
  EXPECT_EQ(log.count("port rail0: that is over: goes nowhere"), 1u);
}

TEST_F(PortSetTest, TheLogSaysWhatKeepsAPortFromWorkingWell) {
  ASSERT_TRUE(open().ok());
  states_[0]->is_up = states_[1]->is_up = false;
  states_[1]->info.driver = "net_memif";
  CapturedLog log;
  ports_.log();
  EXPECT_TRUE(log.has("port rail0: no link yet"));
  EXPECT_EQ(log.count("both ends of a memif need the same super_packets, trusted and number of "
                      "workers"),
            1u);
}

TEST_F(PortSetTest, TheLogSaysWhatADriverCosts) {
  ASSERT_TRUE(open().ok());
  states_[1]->info.remark = "packets are copied";
  CapturedLog log;
  ports_.log();
  EXPECT_TRUE(log.has("port rail1: packets are copied"));
  EXPECT_FALSE(log.has("port rail0: packets are copied"));
}

TEST_F(PortSetTest, APortThatCannotBeOpenedAgainAtOnceIsOpenedLater) {
  ASSERT_TRUE(open().ok());
  states_[1]->can_restart = false;
  ports_.close(PortSet::kAll, [] {});
  ports_.reopen([] {});
  EXPECT_EQ(states_[0]->steps, "sxrc");
  EXPECT_EQ(states_[1]->steps, "sxr");
  states_[1]->can_restart = true;
  ports_.restart();
  ports_.resume();
  EXPECT_EQ(states_[1]->steps, "sxrrc");
}

class PortSetWithoutDevice : public PortSetTest {
 protected:
  PortSetWithoutDevice()
      : PortSetTest("[[port]]\nname = \"a\"\ndevice = \"none\"\naddress = \"10.9.0.1/24\"\n") {}
};

TEST_F(PortSetWithoutDevice, TheComplaintNamesLineAndPort) {
  const Status status = open();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ENODEV);
  EXPECT_THAT(status.error().text, HasSubstr("f.toml:1: port 'a': none: is not there"));
}

}  // namespace
}  // namespace lyre
