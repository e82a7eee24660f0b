#include "stack/io/dpdk/extended_stats.h"

#include <gtest/gtest.h>

namespace lyre::io::dpdk {
namespace {

TEST(ExtendedStats, WhatPortsAndWorkersCountIsLeftOut) {
  for (const char* name :
       {"rx_good_packets", "tx_good_packets", "rx_good_bytes", "tx_good_bytes", "rx_missed_errors",
        "rx_q0_packets", "rx_q15_bytes", "tx_q7_packets", "tx_q0_bytes"}) {
    EXPECT_EQ(shown_name(name), "") << name;
  }
}

// A counter for each queue would fill the places of those that matter.
TEST(ExtendedStats, CountersOfQueuesHaveOneName) {
  EXPECT_EQ(shown_name("rx_q0_errors"), "rx_q_errors");
  EXPECT_EQ(shown_name("rx_q15_mbuf_alloc_fail"), "rx_q_mbuf_alloc_fail");
  EXPECT_EQ(shown_name("tx_q3_doorbells"), "tx_q_doorbells");
}

TEST(ExtendedStats, OtherNamesAreTheDrivers) {
  for (const char* name : {"rx_errors", "rx_mbuf_allocation_errors", "bw_in_allowance_exceeded",
                           "tx_drops", "rx_queue_drops", "rx_q", "rx_qx_packets", "rx_q3"}) {
    EXPECT_EQ(shown_name(name), name);
  }
}

// ENA's counters of what its queues ask for a reset after.
TEST(ExtendedStats, FaultsOfQueuesAreKnown) {
  for (const char* name :
       {"rx_q0_bad_desc_num", "rx_q7_bad_req_id", "tx_q0_bad_req_id", "tx_q31_prepare_ctx_err"}) {
    EXPECT_TRUE(is_fault(shown_name(name))) << name;
  }
  for (const char* name : {"rx_q0_l4_csum_bad", "rx_q0_mbuf_alloc_fail", "tx_q0_missed_tx",
                           "tx_q0_doorbells", "tx_drops", ""}) {
    EXPECT_FALSE(is_fault(shown_name(name))) << name;
  }
}

}  // namespace
}  // namespace lyre::io::dpdk
