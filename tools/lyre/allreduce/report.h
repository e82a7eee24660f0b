#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "tools/lyre/allreduce/job.h"

namespace lyre::allreduce {

/// The times of one job. The time of an all-reduce is that of its slowest rank; of the iterations
/// it is the median.
struct Measurement {
  std::string transport;
  std::vector<RankResult> ranks;
  std::vector<uint64_t> bucket_ns;
  uint64_t total_ns = 0;
};

Measurement measure(const Job& job, std::vector<RankResult> results);

/// Everything that the command reports.
struct Report {
  std::string collective = kAllReduce;
  std::vector<std::string> hosts;  // by rank
  std::vector<Bucket> buckets;
  uint32_t iterations = 0;
  uint64_t seed = 0;
  Measurement plugin;
  std::vector<Measurement> kernels;  // none with --no-kernel

  /// The one with the smallest sum of all sizes; null: the kernel was not measured.
  const Measurement* best_kernel() const;
};

/// Checks that the daemons' TCP carried the plugin's bytes between the hosts. A host whose daemon
/// was started again during the job is not checked, because its counters began again, and neither
/// is one whose socket is a domain's, which shows none. Fails: throws Failure naming the host and
/// the two numbers.
void check_daemon_counters(const std::vector<std::string>& hosts,
                           const std::vector<RankResult>& results);

void print_table(const Report& report, std::ostream& out);
void print_json(const Report& report, std::ostream& out);
nlohmann::json to_json(const Report& report);

}  // namespace lyre::allreduce
