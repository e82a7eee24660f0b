#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/unit/tools/stats_segment.h"
#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/allreduce/report.h"
#include "tools/lyre/snapshot.h"

namespace lyre::allreduce {
namespace {

RankResult rank_with_times(std::vector<std::vector<uint64_t>> elapsed_ns) {
  RankResult result;
  result.plugin_name = "Test";
  result.abi = 11;
  result.elapsed_ns = std::move(elapsed_ns);
  result.elements_verified = 1000;
  result.processor_ns = 250'000'000;
  return result;
}

Job two_bucket_job() {
  Job job;
  job.transport = "plugin";
  job.iterations = 3;
  job.buckets = {{"m", 0, 1, 250}, {"m", 1, 1, 500}};
  return job;
}

TEST(Report, ABucketTakesAsLongAsItsLastRankInTheMedianIteration) {
  const Measurement measurement =
      measure(two_bucket_job(), {rank_with_times({{10, 100}, {30, 100}, {20, 100}}),
                                 rank_with_times({{15, 90}, {5, 300}, {25, 200}})});
  EXPECT_EQ(measurement.bucket_ns, (std::vector<uint64_t>{25, 200}));
  EXPECT_EQ(measurement.total_ns, 225U);
}

Report sample() {
  Report report{.hosts = {"A", "B"}, .buckets = two_bucket_job().buckets, .iterations = 3};
  report.plugin = measure(two_bucket_job(), {rank_with_times({{10, 40}, {10, 40}, {10, 40}}),
                                             rank_with_times({{10, 40}, {10, 40}, {10, 40}})});
  for (const uint64_t ns : {uint64_t{50}, uint64_t{25}}) {
    Job job = two_bucket_job();
    job.transport = "kernel " + std::to_string(ns);
    report.kernels.push_back(
        measure(job, {rank_with_times({{ns, 2 * ns}, {ns, 2 * ns}, {ns, 2 * ns}}),
                      rank_with_times({{ns, 2 * ns}, {ns, 2 * ns}, {ns, 2 * ns}})}));
  }
  return report;
}

TEST(Report, ComparesWithTheBestKernel) {
  const nlohmann::json json = to_json(sample());
  EXPECT_DOUBLE_EQ(json.at("ratio").get<double>(), 1.5);  // 75 ns against 50
  EXPECT_EQ(json.at("plugin").at("total").at("bytes"), 3000);
  EXPECT_DOUBLE_EQ(json.at("plugin").at("total").at("algorithm_bits_per_s").get<double>(), 480e9);
  EXPECT_EQ(json.at("plugin").at("elements_verified"), 2000);
  EXPECT_EQ(json.at("plugin").at("processor_ns"), 500'000'000);
  EXPECT_EQ(json.at("plugin").at("total").at("time_ns"), 50);
  EXPECT_EQ(json.at("kernel").size(), 2U);
}

TEST(Report, TheRatioComesFirst) {
  std::ostringstream out;
  print_table(sample(), out);
  EXPECT_EQ(out.str().rfind("ratio 1.50: Test 60.00 GB/s bus bandwidth, kernel 25 40.00 GB/s\n", 0),
            0U)
      << out.str();
}

Measurement kernel_of(const char* transport, uint64_t first_ns, uint64_t second_ns) {
  Job job = two_bucket_job();
  job.transport = transport;
  const RankResult rank =
      rank_with_times({{first_ns, second_ns}, {first_ns, second_ns}, {first_ns, second_ns}});
  return measure(job, {rank, rank});
}

/// The end of a line that has this ratio, these verified elements and that transport.
std::string ending(const char* ratio, const char* verified, const char* transport) {
  return std::string("    ") + ratio + "          " + verified + "  " + transport + "\n";
}

TEST(Report, EachLineIsComparedWithTheKernelsBestOfItsSize) {
  Report report = sample();  // the plugin took 10 and 40 ns
  report.kernels = {kernel_of("kernel, 1 socket", 15, 200),
                    kernel_of("kernel, 2x8 sockets", 40, 120)};
  std::ostringstream out;
  print_table(report, out);
  for (const std::string& wanted :
       {ending("1.50", "2000", "kernel, 1 socket"), ending("3.00", "4000", "kernel, 2x8 sockets"),
        ending("3.20", "2000", "kernel, 2x8 sockets")}) {
    EXPECT_NE(out.str().find(wanted), std::string::npos) << wanted << out.str();
  }
  EXPECT_EQ(out.str().rfind("ratio 3.20: ", 0), 0U) << out.str();
  EXPECT_NE(out.str().find("the total's to the one with the smallest sum of all sizes\n"),
            std::string::npos)
      << out.str();
  const nlohmann::json json = to_json(report);
  EXPECT_DOUBLE_EQ(json.at("ratio").get<double>(), 3.2);
  EXPECT_EQ(json.at("kernel").at(0).at("buckets").at(1).at("time_ns"), 200);
}

TEST(Report, TheBusBandwidthOfASendRecvIsWhatEachRankSends) {
  Report report = sample();
  for (int i = 0; i < 2; ++i) report.hosts.push_back("C");
  report.plugin.ranks.resize(report.hosts.size());
  EXPECT_DOUBLE_EQ(to_json(report).at("plugin").at("total").at("bus_bits_per_s").get<double>(),
                   480e9 * 1.5);
  report.collective = kSendRecv;
  EXPECT_DOUBLE_EQ(to_json(report).at("plugin").at("total").at("bus_bits_per_s").get<double>(),
                   480e9);
}

TEST(Report, WithoutTheKernelThereIsNoRatio) {
  Report report = sample();
  report.kernels.clear();
  EXPECT_TRUE(to_json(report).at("ratio").is_null());
  std::ostringstream out;
  print_table(report, out);
  EXPECT_EQ(out.str().find("kernel"), std::string::npos) << out.str();
}

// Names of hosts come from other machines, and ended the command after the whole job.
TEST(Report, BytesOfAHostsNameThatAreNotUtf8AreReplacedInJson) {
  Report report = sample();
  report.hosts[1] = "\xff";
  std::ostringstream out;
  print_json(report, out);
  EXPECT_EQ(nlohmann::json::parse(out.str()).at("hosts").at(1), "\uFFFD");
}

std::vector<RankResult> daemon_results(uint64_t counted_out, uint64_t counted_in) {
  RankResult result;
  result.has_daemon = true;
  result.crossed = {100, 100};
  result.daemon_before = {1000, 2000};
  result.daemon_after = {1000 + counted_out, 2000 + counted_in};
  return {result, result};  // two ranks of one host: 200 bytes each way
}

TEST(DaemonCounters, CoverThePluginsBytes) {
  EXPECT_NO_THROW(check_daemon_counters({"A", "A"}, daemon_results(200, 200)));
  EXPECT_NO_THROW(check_daemon_counters({"A", "A"}, daemon_results(5000, 5000)));
}

TEST(DaemonCounters, AShortfallNamesTheHost) {
  for (const auto& results : {daemon_results(199, 200), daemon_results(200, 199)}) {
    try {
      check_daemon_counters({"A", "A"}, results);
      FAIL() << "it was accepted";
    } catch (const Failure& failure) {
      EXPECT_EQ(std::string(failure.what()).rfind("host A:", 0), 0U) << failure.what();
    }
  }
}

TEST(DaemonCounters, OfADaemonThatWasStartedAgainAreNotCompared) {
  std::vector<RankResult> results = daemon_results(0, 0);
  results[1].daemon_after.started_unix_ns = 1;
  EXPECT_NO_THROW(check_daemon_counters({"A", "A"}, results));

  Report report = sample();
  report.plugin.ranks = results;
  report.plugin.ranks[0].daemon_after.started_unix_ns = 1;
  report.plugin.ranks[1].daemon_after.started_unix_ns = 0;
  const nlohmann::json hosts = to_json(report).at("bytes_between_hosts");
  EXPECT_FALSE(hosts.at("A").at("checked_by_daemon_counters").get<bool>());
  EXPECT_TRUE(hosts.at("B").at("checked_by_daemon_counters").get<bool>());
  std::ostringstream out;
  print_table(report, out);
  EXPECT_NE(out.str().find("host A: lyred was started again during the job"), std::string::npos);
  EXPECT_EQ(out.str().find("host B: lyred"), std::string::npos);
}

std::string table_where_b_is_not_checked(const std::vector<RankResult>& results) {
  Report report = sample();
  report.plugin.ranks = results;
  const nlohmann::json hosts = to_json(report).at("bytes_between_hosts");
  EXPECT_TRUE(hosts.at("A").at("checked_by_daemon_counters").get<bool>());
  EXPECT_FALSE(hosts.at("B").at("checked_by_daemon_counters").get<bool>());
  std::ostringstream out;
  print_table(report, out);
  return out.str();
}

TEST(DaemonCounters, AreNotComparedWhereBytesMayGoOverRdma) {
  std::vector<RankResult> results = daemon_results(0, 0);
  results[1].may_use_rdma = true;
  EXPECT_NO_THROW(check_daemon_counters({"A", "A"}, results));
  EXPECT_EQ(table_where_b_is_not_checked(results).find("was started again"), std::string::npos);
}

// The counters of such a socket are zeros, so every job failed there.
TEST(DaemonCounters, OfADomainsSocketAreNotCompared) {
  tools::FakeSegment segment;
  const auto count = [&] {
    return tools::tcp_payload_bytes(
        tools::read_snapshot(segment.data(), segment.bytes(), tools::FakeSegment::kNowNs));
  };
  EXPECT_FALSE(count().is_domain);
  segment.header().is_domain = 1;
  std::vector<RankResult> results = daemon_results(200, 200);
  results[1].daemon_before = results[1].daemon_after = count();
  EXPECT_TRUE(results[1].daemon_after.is_domain);
  EXPECT_NO_THROW(check_daemon_counters({"A", "B"}, results));
  const std::string table = table_where_b_is_not_checked(results);
  EXPECT_NE(table.find("host B: lyred shows no counters at a domain's socket"), std::string::npos)
      << table;
  EXPECT_EQ(table.find("host A: lyred"), std::string::npos) << table;
}

TEST(DaemonCounters, AreNotAskedForWhereThereIsNoDaemon) {
  std::vector<RankResult> results = daemon_results(0, 0);
  for (RankResult& result : results) result.has_daemon = false;
  EXPECT_NO_THROW(check_daemon_counters({"A", "A"}, results));
}

}  // namespace
}  // namespace lyre::allreduce
