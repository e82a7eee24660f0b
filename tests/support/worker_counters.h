#pragma once

#include <gtest/gtest.h>

#include <string>

#include "libclient/include/lyre/lyre.h"
#include "stack/channel/stats.h"

namespace lyre::test {

/// The counters of a daemon, each summed over its workers.
class WorkerCounters {
 public:
  using Counter = channel::StatCounter channel::WorkerStats::*;

  explicit WorkerCounters(const std::string& socket) {
    EXPECT_EQ(lyre_stats_open(socket.c_str(), &segment_, &bytes_), 0) << lyre_last_error();
  }
  ~WorkerCounters() { lyre_stats_close(segment_, bytes_); }
  WorkerCounters(const WorkerCounters&) = delete;
  WorkerCounters& operator=(const WorkerCounters&) = delete;

  uint64_t operator[](Counter counter) const {
    const auto* base = static_cast<const uint8_t*>(segment_);
    const auto* header = reinterpret_cast<const channel::StatsHeader*>(base);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < header->worker_count; ++i) {
      const uint64_t offset = header->workers_offset + i * channel::kWorkerStride;
      sum += (reinterpret_cast<const channel::WorkerStats*>(base + offset)->*counter).get();
    }
    return sum;
  }

 private:
  const void* segment_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace lyre::test
