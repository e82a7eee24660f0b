#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/lyre/perf/exchange.h"

/// The output of `lyre perf`.
namespace lyre::perf {

/// One finished connection.
struct Result {
  std::string peer;
  Plan plan;
  Outcome outcome;
  int64_t started_ns = 0;
  int64_t completed_ns = 0;
};

/// Latencies at percentiles. Units: nanoseconds.
struct Latency {
  uint64_t count = 0;
  int64_t min_ns = 0, mean_ns = 0, p50_ns = 0, p99_ns = 0, p999_ns = 0, max_ns = 0;
};
Latency latency_of(std::vector<int64_t> round_trips_ns);

/// One line for each direction, or the latencies. `transport` is that of the client.
std::string client_text(const std::vector<Result>& results, const std::string& transport);
nlohmann::ordered_json client_json(const std::vector<Result>& results,
                                   const std::string& transport);
/// A line for a running test: `now` after `elapsed_ns`, with the rates since `before`, which was
/// `interval_ns` earlier.
std::string progress_text(const Plan& plan, const Progress& before, const Progress& now,
                          int64_t interval_ns, int64_t elapsed_ns);
/// One line for each finished client.
std::string server_text(const Result& result);
nlohmann::ordered_json server_json(const Result& result, const std::string& transport);

}  // namespace lyre::perf
