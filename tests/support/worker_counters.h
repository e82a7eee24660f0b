#pragma once

#include <gtest/gtest.h>

#include <string>

#include "libclient/include/lyre/lyre.h"
#include "libclient/stats_segment.h"
#include "stack/channel/stats.h"

namespace lyre::test {

/// The counters of a daemon, each summed over its workers.
class WorkerCounters {
 public:
  using Counter = channel::StatCounter channel::WorkerStats::*;

  explicit WorkerCounters(const std::string& socket) {
    EXPECT_EQ(client::map_stats_segment(socket.c_str(), segment_), 0) << lyre_last_error();
  }

  uint64_t operator[](Counter counter) const {
    const uint8_t* base = segment_.data();
    const auto* header = reinterpret_cast<const channel::StatsHeader*>(base);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < header->worker_count; ++i) {
      const uint64_t offset = header->workers_offset + i * channel::kWorkerStride;
      sum += (reinterpret_cast<const channel::WorkerStats*>(base + offset)->*counter).get();
    }
    return sum;
  }

 private:
  client::Mapping segment_;
};

}  // namespace lyre::test
