#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_timer.h>
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/io_contract/dpdk_wire.h"

// Of DPDK, for drivers: their header is not installed everywhere.
struct rte_eth_dev;
extern "C" rte_eth_dev* rte_eth_dev_allocated(const char* name);
extern "C" int rte_eth_dev_callback_process(rte_eth_dev* device, rte_eth_event_type event,
                                            void* argument);

// Ports on DPDK's null device, which they take for a NIC. The test plays what it lacks: a reset,
// counters, a transmit ring that keeps packets, a place on the VMbus, and what is special about
// ENA's driver.
namespace lyre::io::contract {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr rte_ether_addr kOtherMac{{2, 0, 0, 0, 0, 0x77}};

constexpr const char* kEna = "net_ena";

struct PlayedNic {
  const char* driver = nullptr;  ///< null: its own
  int link_queries = 0;
  bool can_reset = true;
  bool draws_mac = false;  ///< in a reset
  bool can_set_mac = true;
  bool can_start = true;
  const char* asks_at_start = nullptr;  ///< the port of this name asks for a reset once
  uint64_t missed = 0;
  uint64_t unbuffered = 0;
  int mtu_answer = 0;
  std::vector<uint16_t> told_mtus;
  bool has_queues = true;  ///< whenever it was told an MTU
  std::vector<rte_mbuf*> kept;
  rte_mempool* rx_pool = nullptr;
  uint32_t rx_ring_slots = 0;                     ///< taken at each start, and never freed
  bool has_memory_nearby = true;                  ///< for its queues, on its NUMA node
  bool is_ena() const { return driver == kEna; }  ///< the fields that follow are of ENA only
  bool can_interrupt_for_link = true;
  bool is_told_of_link = false;  ///< it was configured so
  bool has_memzones = false;     ///< of a device that was probed and not removed with its port
  uint64_t bad_requests = 0;
} nic;

/// DPDK's function, in front of which this program has one of the same name.
template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int set_mac(uint16_t port_id, const rte_ether_addr& mac) {
  static const auto real =
      next<int (*)(uint16_t, rte_ether_addr*)>("rte_eth_dev_default_mac_addr_set");
  rte_ether_addr wanted = mac;
  return real(port_id, &wanted);
}

uint16_t keep(void*, rte_mbuf** packets, uint16_t count) {
  nic.kept.insert(nic.kept.end(), packets, packets + count);
  return count;
}

/// Shows a device on a VMbus, to this thread only.
bool show_on_vmbus(const std::string& name) {
  static const bool is_alone = unshare(CLONE_NEWNS) == 0 &&
                               mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                               mount("none", "/sys/bus", "tmpfs", 0, nullptr) == 0;
  return is_alone && std::filesystem::create_directories("/sys/bus/vmbus/devices/" + name);
}

class NicRestart : public ::testing::Test {
 protected:
  void SetUp() override {
    nic = {};
    auto started = environment();
    ASSERT_TRUE(started) << started.error().text;
    auto memory =
        (*started)->make_memory(0, {.rx_slots = 1024, .mtu_bytes = 9000, .tx_packets = 256});
    ASSERT_TRUE(memory) << memory.error().text;
    memory_ = std::move(*memory);
  }
  void TearDown() override {
    port_.reset();
    rte_pktmbuf_free_bulk(nic.kept.data(), static_cast<unsigned>(nic.kept.size()));
  }
  Status try_open(const std::string& device, uint32_t mtu_bytes = 1500) {
    auto started = environment();
    PacketMemory* const memories[] = {memory_.get()};
    auto port = (*started)->open_port({.device = device, .mtu_bytes = mtu_bytes}, memories);
    if (!port) return port.error();
    port_ = std::move(*port);
    return Ok{};
  }
  void open(const std::string& device) {
    const Status opened = try_open(device);
    ASSERT_TRUE(opened) << opened.error().text;
  }
  void open_on_vmbus() {
    ASSERT_EQ(rte_eal_hotplug_add("vdev", name_.c_str(), ""), 0);
    if (!show_on_vmbus(name_)) GTEST_SKIP() << "needs the right to mount";
    open("vmbus:" + name_);
  }
  uint16_t port_id() const {
    uint16_t id = RTE_MAX_ETHPORTS;
    rte_eth_dev_get_port_by_name(name_.c_str(), &id);
    return id;
  }
  void report(rte_eth_event_type event) {
    rte_eth_dev_callback_process(rte_eth_dev_allocated(name_.c_str()), event, nullptr);
  }
  void send_one() {
    rte_eth_fp_ops[port_id()].tx_pkt_burst = keep;
    PacketBuf* packet = nullptr;
    ASSERT_EQ(memory_->alloc_tx({&packet, 1}), 1u);
    packet->length = 60;
    ASSERT_EQ(port_->queue(0).tx_burst({&packet, 1}), 1u);
  }
  /// The driver asks for a reset, and the control thread restarts the port.
  Status ask_for_reset() {
    report(RTE_ETH_EVENT_INTR_RESET);
    EXPECT_EQ(port_->state(), PortState::kResetting);
    EXPECT_TRUE(port_->needs_restart());
    return restart_at_once(*port_);
  }
  MacAddress mac() const {
    rte_ether_addr now = {};
    EXPECT_EQ(rte_eth_macaddr_get(port_id(), &now), 0);
    MacAddress out;
    std::copy(std::begin(now.addr_bytes), std::end(now.addr_bytes), out.bytes.begin());
    return out;
  }

  const std::string name_ = "net_null" + std::to_string(made_++);
  std::unique_ptr<PacketMemory> memory_;
  std::unique_ptr<Port> port_;
  static inline int made_ = 0;
};

// ixgbevf without an assigned address, and iavf.
TEST_F(NicRestart, ANicThatDrawsAnotherMacInAResetGetsItsOwnBack) {
  open(name_);
  const MacAddress own = port_->info().capabilities.mac;
  nic.draws_mac = true;
  const Status restarted = ask_for_reset();
  ASSERT_TRUE(restarted) << restarted.error().text;
  EXPECT_EQ(port_->state(), PortState::kRunning);
  EXPECT_EQ(mac(), own);
  EXPECT_EQ(port_->info().capabilities.mac, own);
}

// The null device has another address also when it is opened again.
TEST_F(NicRestart, ANicThatCannotGetItsMacBackIsAway) {
  open(name_);
  nic.draws_mac = true;
  nic.can_set_mac = false;
  const Status restarted = ask_for_reset();
  ASSERT_FALSE(restarted);
  EXPECT_NE(restarted.error().text.find("another address"), std::string::npos);
  EXPECT_EQ(port_->state(), PortState::kAway);
  EXPECT_FALSE(port_->is_link_up());
}

// iavf, whose host changed it a second time. The port looked healthy and passed nothing.
TEST_F(NicRestart, ANicThatAsksForAResetDuringOneIsResetAgain) {
  open(name_);
  nic.asks_at_start = name_.c_str();
  Status restarted = ask_for_reset();
  ASSERT_TRUE(restarted) << restarted.error().text;
  EXPECT_EQ(port_->state(), PortState::kResetting);
  ASSERT_TRUE(port_->needs_restart());
  restarted = restart_at_once(*port_);
  ASSERT_TRUE(restarted) << restarted.error().text;
  EXPECT_EQ(port_->state(), PortState::kRunning);
}

/// iavf's driver gives back what its rings hold only after a reset that succeeds.
class IavfReset : public NicRestart {
 protected:
  void SetUp() override {
    NicRestart::SetUp();
    nic.driver = "net_iavf";
    open(name_);
  }
  /// The reset has failed: it is tried again later, and nothing is closed until then.
  void expect_to_wait(size_t held) {
    EXPECT_NE(port_id(), RTE_MAX_ETHPORTS) << "DPDK has the port";
    EXPECT_EQ(port_->state(), PortState::kResetting);
    EXPECT_FALSE(port_->is_link_up());
    EXPECT_FALSE(port_->needs_restart()) << "at once";
    port_->queue(0).reclaim();
    EXPECT_EQ(port_->queue(0).tx_held(), held);
  }
  void expect_success_after_a_while() {
    for (const int second : {1, 2}) port_->look(seconds(second));
    ASSERT_TRUE(port_->needs_restart());
    const Status restarted = restart_at_once(*port_);
    ASSERT_TRUE(restarted) << restarted.error().text;
    EXPECT_EQ(port_->state(), PortState::kRunning);
    EXPECT_TRUE(port_->is_link_up());
    EXPECT_EQ(port_->queue(0).tx_held(), 0u);
    EXPECT_FALSE(port_->needs_restart());
  }
};

// The port was closed and opened again, and the packets of its rings were lost to their pools.
TEST_F(IavfReset, AResetThatFailsIsRepeatedAndNothingIsClosed) {
  send_one();
  nic.can_reset = false;
  const Status restarted = ask_for_reset();
  ASSERT_FALSE(restarted);
  EXPECT_THAT(restarted.error().text, HasSubstr("cannot be reset: VF is still resetting"));
  expect_to_wait(1);
  nic.can_reset = true;
  expect_success_after_a_while();
}

TEST_F(IavfReset, APortThatDoesNotStartAfterItsResetIsResetAgain) {
  nic.can_start = false;
  const Status restarted = ask_for_reset();
  ASSERT_FALSE(restarted);
  EXPECT_THAT(restarted.error().text, HasSubstr("cannot be started"));
  expect_to_wait(0);
  nic.can_start = true;
  expect_success_after_a_while();
}

// Each of them skipped what the first one had closed, for ever.
TEST_F(IavfReset, AfterResetsThatFailAtGrowingIntervalsThePortIsOpenedAgain) {
  nic.can_reset = false;
  Status restarted = ask_for_reset();
  int second = 1;
  for (; port_->state() == PortState::kResetting && second < 300; ++second) {
    port_->look(seconds(second));
    if (port_->needs_restart()) restarted = restart_at_once(*port_);
  }
  EXPECT_GT(second, 1 + 2 + 4 + 8 + 16 + 32 + 60);
  EXPECT_EQ(port_->state(), PortState::kAway);
  EXPECT_THAT(restarted.error().text, HasSubstr("another address")) << "a new null device has one";
}

TEST_F(NicRestart, MissedPacketsAreCountedOverAReset) {
  open(name_);
  nic.missed = 100;
  nic.unbuffered = 20;
  EXPECT_EQ(port_->rx_missed(), 120u);
  ASSERT_TRUE(ask_for_reset());
  nic.missed = 3;
  EXPECT_EQ(port_->rx_missed(), 123u);
}

// ENA and MANA learn it from this call alone, and ENA forgets it in a reset.
TEST_F(NicRestart, ANicIsToldALargeMtuAtTheStartAndAfterAReset) {
  ASSERT_TRUE(try_open(name_, 9000));
  EXPECT_THAT(nic.told_mtus, Not(IsEmpty()));
  EXPECT_THAT(nic.told_mtus, Each(9000));
  nic.told_mtus.clear();
  ASSERT_TRUE(ask_for_reset());
  EXPECT_THAT(nic.told_mtus, ElementsAre(9000));
}

// netvsc gives its new channel to queues that are set up.
TEST_F(NicRestart, ANicIsToldTheMtuWhenItHasItsQueues) {
  ASSERT_TRUE(try_open(name_, 9000));
  EXPECT_THAT(nic.told_mtus, Not(IsEmpty()));
  EXPECT_TRUE(nic.has_queues);
}

// netvsc closes its channel to set one.
TEST_F(NicRestart, ANicIsNotToldAnMtuThatEveryNicHas) {
  open(name_);
  EXPECT_THAT(nic.told_mtus, IsEmpty());
}

TEST_F(NicRestart, ADriverThatCannotBeToldTheMtuIsUsed) {
  nic.mtu_answer = -ENOTSUP;
  EXPECT_TRUE(try_open(name_, 9000));
}

TEST_F(NicRestart, ANicThatRefusesTheMtuIsRefused) {
  nic.mtu_answer = -EPERM;
  const Status opened = try_open(name_, 9000);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().text, HasSubstr("does not take MTU 9000"));
}

// gVNIC with the queue format GQI: two connections got one buffer.
TEST_F(NicRestart, ANicWhoseDriverFreesPacketsTwiceIsNotClosed) {
  nic.driver = "net_gve";
  open(name_);
  EXPECT_TRUE(port_->info().frees_twice_when_closed) << "an upgrade is refused";
  const Status restarted = ask_for_reset();
  ASSERT_FALSE(restarted);
  EXPECT_THAT(restarted.error().text, HasSubstr("frees packets twice"));
  EXPECT_NE(port_id(), RTE_MAX_ETHPORTS) << "DPDK has the port";
  EXPECT_FALSE(port_->is_link_up());
  EXPECT_FALSE(port_->needs_restart()) << "at once";
}

TEST_F(NicRestart, ANicWhoseDriverFreesPacketsTwiceIsNotOpenedAgain) {
  nic.driver = "net_gve";
  open(name_);
  port_->suspend();
  port_->close();
  EXPECT_FALSE(port_->restart());
  EXPECT_EQ(port_->state(), PortState::kAway);
}

TEST_F(NicRestart, OtherNicsMayBeClosedForAnUpgrade) {
  open(name_);
  EXPECT_FALSE(port_->info().frees_twice_when_closed);
}

// gve sleeps for an admin command at each query.
TEST_F(NicRestart, ALinkThatNeverGoesDownIsAskedForOnce) {
  nic.driver = "net_gve";
  open(name_);
  nic.link_queries = 0;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(port_->is_link_up());
  EXPECT_EQ(nic.link_queries, 1);
}

TEST_F(NicRestart, TheLinkOfNetvscIsAskedForSeldom) {
  nic.driver = "net_netvsc";
  open(name_);
  for (int look = 0; look < 250; ++look) {
    port_->look(seconds(100) + millis(20 * look));
    EXPECT_TRUE(port_->is_link_up());
  }
  EXPECT_EQ(nic.link_queries, 1);
}

// Its queues could not be set up, and the driver crashed when it was closed after that.
TEST_F(NicRestart, ANicOnANodeWithoutMemoryHasItsQueuesElsewhere) {
  nic.has_memory_nearby = false;
  const Status opened = try_open(name_);
  EXPECT_TRUE(opened) << opened.error().text;
}

// Until DPDK 26.07. After a few restarts the port received nothing.
TEST_F(NicRestart, TheReceiveRingThatManaLosesIsTakenBack) {
  nic.driver = "net_mana";
  nic.rx_ring_slots = 256;
  const uint32_t slots = memory_->rx_slots_free();
  for (int i = 0; i < 20; ++i) {
    const Status opened = try_open(name_);
    ASSERT_TRUE(opened) << opened.error().text;
    EXPECT_EQ(memory_->rx_slots_free(), slots - nic.rx_ring_slots);
    port_->suspend();
    port_->close();
    EXPECT_EQ(memory_->rx_slots_free(), slots);
    port_.reset();
  }
}

class EnaRestart : public NicRestart {
 protected:
  void SetUp() override {
    NicRestart::SetUp();
    nic.driver = kEna;
    rte_timer_subsystem_init();  // as ENA's driver does, whose timers look() runs
  }
};

// Its link was always down: without that interrupt the driver drops the device's event.
TEST_F(EnaRestart, TheLinkIsUpBecauseItsInterruptIsAskedFor) {
  open(name_);
  EXPECT_TRUE(nic.is_told_of_link);
  EXPECT_TRUE(port_->is_link_up());
}

TEST_F(EnaRestart, TheLinkOfADeviceWithoutThatInterruptCountsAsUp) {
  nic.can_interrupt_for_link = false;
  const Status opened = try_open(name_);
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_FALSE(nic.is_told_of_link);
  EXPECT_TRUE(port_->is_link_up());
}

TEST_F(NicRestart, OtherNicsAreNotAskedForInterruptsOfTheLink) {
  open(name_);
  EXPECT_FALSE(nic.is_told_of_link);
}

// Its memory zones of the same names were there for ever.
TEST_F(EnaRestart, ADeviceThatWasClosedIsOpenedAgain) {
  open(name_);
  port_.reset();
  const Status opened = try_open(name_);
  EXPECT_TRUE(opened) << opened.error().text;
}

// The driver stops, and its timer tells nobody of resets that its queues trigger.
TEST_F(EnaRestart, ADeviceThatCountsAFaultIsReset) {
  open(name_);
  port_->look(seconds(1));
  EXPECT_EQ(port_->state(), PortState::kRunning);
  for (const int second : {2, 3}) {  // the counter begins at zero again
    nic.bad_requests = 1;
    port_->look(seconds(second));
    EXPECT_EQ(port_->state(), PortState::kResetting);
    const Status restarted = restart_at_once(*port_);
    ASSERT_TRUE(restarted) << restarted.error().text;
    EXPECT_EQ(port_->state(), PortState::kRunning);
  }
}

TEST_F(NicRestart, FaultsThatOtherNicsCountAreOnlyShown) {
  open(name_);
  nic.bad_requests = 1;
  port_->look(seconds(1));
  EXPECT_EQ(port_->state(), PortState::kRunning);
}

// DPDK opens it only when it starts.
TEST_F(NicRestart, ANicOfTheVmbusThatFreesNothingIsNotClosed) {
  open_on_vmbus();
  if (port_ == nullptr) return;
  PacketIo& queue = port_->queue(0);
  send_one();
  for (int second = 1; second <= 15; ++second) {
    queue.note_wait();
    port_->look(seconds(second));
  }
  ASSERT_EQ(port_->state(), PortState::kDraining);
  ASSERT_TRUE(port_->needs_restart());
  port_->suspend();
  EXPECT_EQ(queue.tx_held(), 1u);
  const Status restarted = port_->restart();
  ASSERT_TRUE(restarted) << restarted.error().text;
  queue.reclaim();
  EXPECT_EQ(queue.tx_held(), 0u) << "what it holds are copies";
  port_->resume();
  EXPECT_EQ(port_->state(), PortState::kRunning);
  EXPECT_TRUE(port_->is_link_up());
  EXPECT_FALSE(port_->needs_restart());
}

TEST_F(NicRestart, ANicOfTheVmbusThatCannotBeResetIsNotClosed) {
  open_on_vmbus();
  if (port_ == nullptr) return;
  nic.can_reset = false;
  const Status restarted = ask_for_reset();
  ASSERT_TRUE(restarted) << restarted.error().text;
  EXPECT_EQ(port_->state(), PortState::kRunning);
  EXPECT_TRUE(port_->is_link_up());
}

// The control thread tries fifty times a second what needs no patience.
TEST_F(NicRestart, ANicOfTheVmbusThatDoesNotStartIsTriedLater) {
  open_on_vmbus();
  if (port_ == nullptr) return;
  nic.can_reset = nic.can_start = false;
  EXPECT_FALSE(ask_for_reset());
  EXPECT_FALSE(port_->needs_restart());
  nic.can_start = true;
  for (const int second : {1, 2}) port_->look(seconds(second));
  ASSERT_TRUE(port_->needs_restart());
  ASSERT_TRUE(restart_at_once(*port_));
  EXPECT_EQ(port_->state(), PortState::kRunning);
}

TEST_F(NicRestart, ANicOfTheVmbusThatIsGoneIsClosed) {
  open_on_vmbus();
  if (port_ == nullptr) return;
  std::filesystem::remove("/sys/bus/vmbus/devices/" + name_);
  port_->look(seconds(1));
  EXPECT_EQ(port_->state(), PortState::kAway);
  EXPECT_FALSE(restart_at_once(*port_));
  EXPECT_EQ(port_id(), RTE_MAX_ETHPORTS) << "DPDK has no such port any more";
}

}  // namespace
}  // namespace lyre::io::contract

// DPDK's functions, in front of which this program has some of the same name.
using lyre::io::contract::kOtherMac;
using lyre::io::contract::next;
using lyre::io::contract::nic;
using lyre::io::contract::set_mac;
extern "C" {
int rte_eth_dev_reset(uint16_t port_id) {
  if (!nic.can_reset) {
    rte_log(RTE_LOG_ERR, RTE_LOGTYPE_EAL, "VF is still resetting\n");
    return -EPERM;
  }
  nic.bad_requests = 0;
  rte_eth_dev_stop(port_id);
  return nic.draws_mac ? set_mac(port_id, kOtherMac) : 0;
}
int rte_eth_dev_info_get(uint16_t port_id, rte_eth_dev_info* out) {
  static const auto real = next<int (*)(uint16_t, rte_eth_dev_info*)>("rte_eth_dev_info_get");
  const int rc = real(port_id, out);
  if (nic.driver != nullptr) out->driver_name = nic.driver;
  if (rc == 0 && nic.is_ena() && nic.can_interrupt_for_link) {
    *const_cast<uint32_t*>(out->dev_flags) |= RTE_ETH_DEV_INTR_LSC;
  }
  return rc;
}
int rte_eth_link_get_nowait(uint16_t port_id, rte_eth_link* out) {
  static const auto real = next<int (*)(uint16_t, rte_eth_link*)>("rte_eth_link_get_nowait");
  ++nic.link_queries;
  const int rc = real(port_id, out);
  if (nic.is_ena()) out->link_status = nic.is_told_of_link ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN;
  return rc;
}
int rte_eth_dev_start(uint16_t port_id) {
  static const auto real = next<int (*)(uint16_t)>("rte_eth_dev_start");
  rte_mbuf* ring[256];
  const bool has_ring =
      nic.rx_ring_slots == 0 || rte_pktmbuf_alloc_bulk(nic.rx_pool, ring, nic.rx_ring_slots) == 0;
  if (!has_ring) return -ENOMEM;
  const int rc = nic.can_start ? real(port_id) : -EIO;
  if (nic.asks_at_start != nullptr) {
    rte_eth_dev* device = rte_eth_dev_allocated(std::exchange(nic.asks_at_start, nullptr));
    rte_eth_dev_callback_process(device, RTE_ETH_EVENT_INTR_RESET, nullptr);
  }
  return rc;
}
int rte_eth_dev_set_mtu(uint16_t port_id, uint16_t mtu) {
  rte_eth_rxq_info queue = {};
  // The null device describes no queue, but DPDK checks first that there is one.
  const bool is_set_up = rte_eth_rx_queue_info_get(port_id, 0, &queue) != -EINVAL;
  nic.has_queues = nic.has_queues && is_set_up;
  nic.told_mtus.push_back(mtu);
  return nic.mtu_answer;
}
int rte_eth_dev_default_mac_addr_set(uint16_t port_id, rte_ether_addr* mac) {
  return nic.can_set_mac ? set_mac(port_id, *mac) : -EPERM;
}
int rte_eth_dev_configure(uint16_t port_id, uint16_t rx, uint16_t tx, const rte_eth_conf* conf) {
  static const auto real = next<decltype(&rte_eth_dev_configure)>("rte_eth_dev_configure");
  nic.is_told_of_link = conf->intr_conf.lsc != 0;
  return real(port_id, rx, tx, conf);
}
int rte_eth_dev_socket_id(uint16_t port_id) {
  static const auto real = next<int (*)(uint16_t)>("rte_eth_dev_socket_id");
  return nic.has_memory_nearby ? real(port_id) : 0;
}
int rte_eth_rx_queue_setup(uint16_t port_id, uint16_t queue, uint16_t descriptors, unsigned node,
                           const rte_eth_rxconf* conf, rte_mempool* pool) {
  static const auto real = next<decltype(&rte_eth_rx_queue_setup)>("rte_eth_rx_queue_setup");
  nic.rx_pool = pool;
  if (!nic.has_memory_nearby && static_cast<int>(node) != SOCKET_ID_ANY) return -ENOMEM;
  return real(port_id, queue, descriptors, node, conf, pool);
}
int rte_dev_probe(const char* args) {
  static const auto real = next<int (*)(const char*)>("rte_dev_probe");
  if (nic.has_memzones) return -EEXIST;
  const int rc = real(args);
  nic.has_memzones = nic.is_ena() && rc == 0;
  return rc;
}
/// The driver is called only while its port is there.
int rte_dev_remove(rte_device* device) {
  static const auto real = next<int (*)(rte_device*)>("rte_dev_remove");
  uint16_t port_id = 0;
  if (rte_eth_dev_get_port_by_name(rte_dev_name(device), &port_id) == 0) nic.has_memzones = false;
  return real(device);
}
int rte_eth_xstats_get_names(uint16_t, rte_eth_xstat_name* names, unsigned size) {
  if (size > 0) std::snprintf(names[0].name, sizeof names[0].name, "rx_q0_bad_req_id");
  return 1;
}
int rte_eth_xstats_get_by_id(uint16_t, const uint64_t*, uint64_t* values, unsigned size) {
  std::fill_n(values, size, nic.bad_requests);
  return static_cast<int>(size);
}
int rte_eth_stats_get(uint16_t, rte_eth_stats* out) {
  *out = {};
  out->imissed = nic.missed;
  out->rx_nombuf = nic.unbuffered;
  return 0;
}
}
