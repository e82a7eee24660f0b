#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_timer.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <optional>

#include "stack/io/dpdk/driver_timers.h"
#include "stack/io/dpdk/interrupt_thread.h"
#include "stack/io/dpdk/port_search.h"
#include "tests/io_contract/dpdk_wire.h"
#include "tests/support/busy_interrupt_thread.h"

// Two of DPDK's null devices: one is taken for a NIC of the VMbus, the other for its function.
namespace lyre::io::contract {
namespace {

using ::testing::AnyOf;

constexpr uint16_t kNoPort = RTE_MAX_ETHPORTS;

uint16_t make_port(const char* name) {
  uint16_t id = kNoPort;
  if (rte_eal_hotplug_add("vdev", name, "") != 0) return kNoPort;
  return rte_eth_dev_get_port_by_name(name, &id) == 0 ? id : kNoPort;
}

bool start_port(uint16_t id) {
  const rte_eth_conf config = {};
  rte_mempool* pool =
      rte_pktmbuf_pool_create("function_port", 255, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  const auto node = static_cast<unsigned>(SOCKET_ID_ANY);
  return pool != nullptr && rte_eth_dev_configure(id, 1, 1, &config) == 0 &&
         rte_eth_rx_queue_setup(id, 0, 64, node, nullptr, pool) == 0 &&
         rte_eth_tx_queue_setup(id, 0, 64, node, nullptr) == 0 && rte_eth_dev_start(id) == 0;
}

bool is_used(uint16_t netvsc_port) {
  std::optional<bool> answer;
  while (!answer) answer = dpdk::is_function_used(netvsc_port);  // while DPDK's thread is busy
  return *answer;
}

TEST(FunctionPort, IsUsedFromItsStartUntilItIsStopped) {
  const auto started = environment();
  ASSERT_TRUE(started) << started.error().text;
  const uint16_t netvsc = make_port("net_null0");
  const uint16_t function = make_port("net_null1");
  ASSERT_TRUE(netvsc != kNoPort && function != kNoPort);
  ASSERT_TRUE(start_port(function));
  EXPECT_FALSE(is_used(netvsc)) << "it has another address";
  rte_ether_addr mac = {};
  ASSERT_EQ(rte_eth_macaddr_get(netvsc, &mac), 0);
  ASSERT_EQ(rte_eth_dev_default_mac_addr_set(function, &mac), 0);
  EXPECT_TRUE(is_used(netvsc));
  {
    test::BusyInterruptThread busy;
    ASSERT_TRUE(busy.is_set());
    EXPECT_EQ(dpdk::is_function_used(netvsc), std::nullopt) << "that thread may close it";
  }
  EXPECT_TRUE(is_used(netvsc));
  ASSERT_EQ(rte_eth_dev_stop(function), 0);
  EXPECT_FALSE(is_used(netvsc)) << "stopped";
  ASSERT_EQ(rte_eth_dev_start(function), 0);
  EXPECT_TRUE(is_used(netvsc));
  ASSERT_EQ(rte_eth_dev_stop(function), 0);
  ASSERT_EQ(rte_eth_dev_close(function), 0);
  EXPECT_FALSE(is_used(netvsc)) << "closed";
}

// A function was read while that thread closed it.
TEST(InterruptThread, RunsTheWork) {
  ASSERT_TRUE(environment());
  pid_t id = 0;
  while (!dpdk::on_interrupt_thread([&] { id = ::gettid(); })) continue;
  EXPECT_NE(id, 0);
  EXPECT_NE(id, ::gettid());
}

TEST(InterruptThread, RunsNoWorkThatIsNotWaitedFor) {
  ASSERT_TRUE(environment());
  static std::atomic<int> runs{0};  // one that came late would outlive the test
  {
    test::BusyInterruptThread busy;
    ASSERT_TRUE(busy.is_set());
    EXPECT_FALSE(dpdk::on_interrupt_thread([] { ++runs; }));
  }
  while (!dpdk::let_interrupt_thread_finish()) continue;
  EXPECT_EQ(runs, 0);
}

// ENA's timer said that the device was silent, although its keep-alive was queued.
TEST(DriverTimers, RunAtTheLookAfterAPause) {
  ASSERT_TRUE(environment());
  ASSERT_THAT(rte_timer_subsystem_init(), AnyOf(0, -EALREADY));
  static int runs = 0;
  rte_timer timer;
  rte_timer_init(&timer);
  const auto run = [](rte_timer*, void*) { ++runs; };
  ASSERT_EQ(rte_timer_reset(&timer, 1, PERIODICAL, rte_lcore_id(), run, nullptr), 0);
  dpdk::DriverTimers timers;
  EXPECT_TRUE(timers.look(seconds(100)));
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(timers.look(seconds(130)));
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(timers.look(seconds(130) + millis(250)));
  EXPECT_EQ(runs, 2);
  rte_timer_stop_sync(&timer);
}

// Where each look came after a pause, they never ran.
TEST(DriverTimers, SkipOneLookAtMost) {
  ASSERT_TRUE(environment());
  ASSERT_THAT(rte_timer_subsystem_init(), AnyOf(0, -EALREADY));
  dpdk::DriverTimers timers;
  EXPECT_TRUE(timers.look(seconds(100)));
  EXPECT_FALSE(timers.look(seconds(130)));
  EXPECT_TRUE(timers.look(seconds(160)));
  EXPECT_FALSE(timers.look(seconds(190)));
}

}  // namespace
}  // namespace lyre::io::contract
