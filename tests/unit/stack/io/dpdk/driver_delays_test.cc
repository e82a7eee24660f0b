#include <gtest/gtest.h>
#include <rte_alarm.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "stack/io/dpdk/driver_calls.h"
#include "stack/io/dpdk/driver_quirks.h"
#include "stack/io/dpdk/environment.h"
#include "stack/io/dpdk/memory.h"
#include "stack/io/dpdk/queue.h"

namespace lyre::io::dpdk {
namespace {

constexpr uint16_t kPortId = RTE_MAX_ETHPORTS - 1;  // no device has it

/// As virtio's driver waits before it announces the machine.
struct PlayedDelay {
  std::atomic<bool> is_over{false};

  /// Returns when that thread has looked for calls, or has found none to wait for.
  bool begin() {
    const uint64_t waits = DriverCalls::waits();
    if (rte_eal_alarm_set(1, run, this) != 0) return false;
    while (!is_over && DriverCalls::waits() == waits) ::usleep(100);
    return true;
  }
  void await_end() {
    while (!is_over) ::usleep(100);
  }
  static void run(void* argument) {
    rte_delay_us(1);
    static_cast<PlayedDelay*>(argument)->is_over = true;
  }
};

struct PlayedBurst {
  PlayedDelay delay;
  bool has_begun = false;
  bool was_over = false;  ///< the delay, before the burst
} played_burst;

uint16_t send_during_delay(void*, rte_mbuf** packets, uint16_t count) {
  played_burst.has_begun = played_burst.delay.begin();
  ::usleep(1000);
  played_burst.was_over = played_burst.delay.is_over;
  rte_pktmbuf_free_bulk(packets, count);
  return count;
}

class DriverDelays : public ::testing::Test {
 protected:
  /// DPDK, started once in this process.
  static void SetUpTestSuite() {
    auto made = start_environment({.file_prefix = "lyre-unit-delay-" + std::to_string(::getpid())});
    ASSERT_TRUE(made) << made.error().text;
    environment_ = std::move(*made);
    ASSERT_TRUE(environment_->register_worker_thread());
  }

  static inline std::unique_ptr<Backend> environment_;
  const uint64_t waits_before_ = DriverCalls::waits();
  DriverCalls calls_;
};

// A worker that was preempted in a burst for longer than the delay worked on the ring while the
// driver sent there.
TEST_F(DriverDelays, OnTheInterruptThreadEndAfterTheCallsThatHadBegun) {
  PlayedDelay delay;
  calls_.enter();
  ASSERT_TRUE(delay.begin());
  EXPECT_FALSE(delay.is_over);
  calls_.leave();
  delay.await_end();
  EXPECT_GT(DriverCalls::waits(), waits_before_);
}

TEST_F(DriverDelays, EndAfterTheBurstOfAQueueWhoseDriverSendsThere) {
  auto memory = environment_->make_memory(0, {.rx_slots = 64, .tx_packets = 64});
  ASSERT_TRUE(memory) << memory.error().text;
  static void* no_data[RTE_MAX_QUEUES_PER_PORT] = {};
  struct rte_eth_fp_ops& calls = rte_eth_fp_ops[kPortId];
  calls.tx_pkt_burst = send_during_delay;
  calls.txq.data = no_data;
  calls.txq.clbk = no_data;
  const std::atomic<bool> is_up{true};
  Queue queue({.port_id = kPortId, .quirks = &quirks_of("net_virtio"), .is_nic_up = &is_up},
              static_cast<Memory&>(**memory));
  queue.start();
  PacketBuf* packet = nullptr;
  ASSERT_EQ((*memory)->alloc_tx({&packet, 1}), 1u);
  packet->length = 54;
  EXPECT_EQ(queue.tx_burst({&packet, 1}), 1u);
  ASSERT_TRUE(played_burst.has_begun);
  EXPECT_FALSE(played_burst.was_over);
  played_burst.delay.await_end();
}

TEST_F(DriverDelays, OnOtherThreadsWaitForNoCall) {
  calls_.enter();
  rte_delay_us(1);
  EXPECT_EQ(DriverCalls::waits(), waits_before_);
  calls_.leave();
}

}  // namespace
}  // namespace lyre::io::dpdk
