#include "tools/lyre/allreduce/report.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/json_document.h"

namespace lyre::allreduce {
namespace {

using nlohmann::json;

uint64_t median(std::vector<uint64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double alg_gb_per_s(uint64_t bytes, uint64_t ns) {
  return ns == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(ns);
}

// The bus bandwidth of nccl-tests: what a ring moves over each link, whatever the number of ranks.
double bus_gb_per_s(const Report& report, uint64_t bytes, uint64_t ns) {
  const double alg = alg_gb_per_s(bytes, ns);
  if (report.collective == kSendRecv) return alg;
  const auto n = static_cast<double>(report.hosts.size());
  return alg * 2.0 * (n - 1.0) / n;
}

double ratio_of(uint64_t kernel_ns, uint64_t plugin_ns) {
  return plugin_ns == 0 ? 0 : static_cast<double>(kernel_ns) / static_cast<double>(plugin_ns);
}

uint64_t total_bytes(const std::vector<Bucket>& buckets) {
  return std::accumulate(buckets.begin(), buckets.end(), uint64_t{0},
                         [](uint64_t sum, const Bucket& bucket) { return sum + bucket.bytes(); });
}

uint64_t verified(const Measurement& measurement) {
  uint64_t count = 0;
  for (const RankResult& rank : measurement.ranks) count += rank.elements_verified;
  return count;
}

/// The kernel's transport with the smallest time; null: none was measured.
template <typename TimeOf>
const Measurement* fastest(const std::vector<Measurement>& kernels, TimeOf time_of) {
  const auto best = std::min_element(
      kernels.begin(), kernels.end(),
      [&](const Measurement& a, const Measurement& b) { return time_of(a) < time_of(b); });
  return best == kernels.end() ? nullptr : &*best;
}

struct Row {
  std::string name;
  uint64_t bytes;
  uint64_t plugin_ns;
  uint64_t verified;
  const Measurement* kernel;  // null: not measured
  uint64_t kernel_ns;         // of `kernel`
};

void print_row(const Report& report, const Row& row, std::ostream& out) {
  out << std::left << std::setw(20) << row.name << std::right << std::setw(12) << row.bytes
      << std::setw(12) << row.plugin_ns / 1000 << std::setw(10)
      << alg_gb_per_s(row.bytes, row.plugin_ns) << std::setw(10)
      << bus_gb_per_s(report, row.bytes, row.plugin_ns);
  if (row.kernel != nullptr) {
    out << std::setw(12) << bus_gb_per_s(report, row.bytes, row.kernel_ns) << std::setw(8)
        << ratio_of(row.kernel_ns, row.plugin_ns);
  }
  out << std::setw(14) << row.verified;
  if (row.kernel != nullptr) out << "  " << row.kernel->transport;
  out << "\n";
}

// Beside the kernel's best of that size.
Row bucket_row(const Report& report, size_t i) {
  const Bucket& bucket = report.buckets[i];
  const Measurement* kernel = fastest(
      report.kernels, [i](const Measurement& measurement) { return measurement.bucket_ns[i]; });
  // The warm-up is verified, too.
  const uint64_t passes = uint64_t{report.iterations + 1} * report.hosts.size();
  return {.name = bucket.model + " " + std::to_string(bucket.index),
          .bytes = bucket.bytes(),
          .plugin_ns = report.plugin.bucket_ns[i],
          .verified = bucket.elements * passes,
          .kernel = kernel,
          .kernel_ns = kernel != nullptr ? kernel->bucket_ns[i] : 0};
}

Row total_row(const Report& report) {
  const Measurement* kernel = report.best_kernel();
  return {.name = "total",
          .bytes = total_bytes(report.buckets),
          .plugin_ns = report.plugin.total_ns,
          .verified = verified(report.plugin),
          .kernel = kernel,
          .kernel_ns = kernel != nullptr ? kernel->total_ns : 0};
}

void print_headline(const Report& report, std::ostream& out) {
  const size_t ranks = report.hosts.size();
  const uint64_t bytes = total_bytes(report.buckets);
  const RankResult& first = report.plugin.ranks.front();
  if (const Measurement* kernel = report.best_kernel()) {
    out << "ratio " << ratio_of(kernel->total_ns, report.plugin.total_ns) << ": "
        << first.plugin_name << " " << bus_gb_per_s(report, bytes, report.plugin.total_ns)
        << " GB/s bus bandwidth, " << kernel->transport << " "
        << bus_gb_per_s(report, bytes, kernel->total_ns) << " GB/s\n";
    for (const Measurement& other : report.kernels) {
      if (&other == kernel) continue;
      out << "(" << other.transport << ": " << bus_gb_per_s(report, bytes, other.total_ns)
          << " GB/s)\n";
    }
  }
  out << report.collective << " of " << ranks << " ranks on hosts";
  for (const std::string& host : report.hosts) out << " " << host;
  out << "; plugin " << first.plugin_name << ", ABI v" << first.abi << ", device "
      << first.device_name << ", " << report.iterations << " iterations, seed " << report.seed
      << "\n";
}

json time_json(const Report& report, uint64_t bytes, uint64_t ns) {
  return {{"time_ns", ns},
          {"algorithm_bits_per_s", 8e9 * alg_gb_per_s(bytes, ns)},
          {"bus_bits_per_s", 8e9 * bus_gb_per_s(report, bytes, ns)}};
}

uint64_t processor_ns(const Measurement& measurement) {
  uint64_t ns = 0;
  for (const RankResult& rank : measurement.ranks) ns += rank.processor_ns;
  return ns;
}

json measurement_json(const Report& report, const Measurement& measurement) {
  const RankResult& first = measurement.ranks.front();
  json buckets = json::array();
  for (size_t i = 0; i < report.buckets.size(); ++i) {
    const Bucket& bucket = report.buckets[i];
    json row = time_json(report, bucket.bytes(), measurement.bucket_ns[i]);
    row.update({{"model", bucket.model},
                {"bucket", bucket.index},
                {"tensors", bucket.tensors},
                {"bytes", bucket.bytes()}});
    buckets.push_back(std::move(row));
  }
  json total = time_json(report, total_bytes(report.buckets), measurement.total_ns);
  total["bytes"] = total_bytes(report.buckets);
  return {{"transport", measurement.transport},
          {"plugin", first.plugin_name},
          {"device", first.device_name},
          {"abi", first.abi},
          {"speed_mbps", first.speed_mbps},
          {"elements_verified", verified(measurement)},
          {"processor_ns", processor_ns(measurement)},
          {"buckets", std::move(buckets)},
          {"total", std::move(total)}};
}

/// Counters begin at zero at each start of a daemon, so those of two starts are not compared.
bool was_daemon_restarted(const RankResult& result) {
  return result.has_daemon &&
         result.daemon_before.started_unix_ns != result.daemon_after.started_unix_ns;
}

/// Such a socket shows no counters.
bool is_at_domain(const RankResult& result) {
  return result.daemon_before.is_domain || result.daemon_after.is_domain;
}

/// No daemon counts what goes over RDMA.
bool is_checked_by_daemon(const RankResult& result) {
  return result.has_daemon && !result.may_use_rdma && !is_at_domain(result) &&
         !was_daemon_restarted(result);
}

/// The hosts with a rank for which `is_so` is true.
std::set<std::string> hosts_where(const Report& report, bool (*is_so)(const RankResult&)) {
  std::set<std::string> hosts;
  for (size_t rank = 0; rank < report.plugin.ranks.size(); ++rank) {
    if (is_so(report.plugin.ranks[rank])) hosts.insert(report.hosts[rank]);
  }
  return hosts;
}

json crossed_json(const Report& report) {
  json hosts = json::object();
  for (size_t rank = 0; rank < report.hosts.size(); ++rank) {
    const RankResult& result = report.plugin.ranks[rank];
    json& host = hosts[report.hosts[rank]];
    if (host.is_null()) host = json::object();
    host["bytes_sent"] = host.value("bytes_sent", uint64_t{0}) + result.crossed.sent;
    host["bytes_received"] = host.value("bytes_received", uint64_t{0}) + result.crossed.received;
    host["checked_by_daemon_counters"] =
        host.value("checked_by_daemon_counters", true) && is_checked_by_daemon(result);
  }
  return hosts;
}

}  // namespace

Measurement measure(const Job& job, std::vector<RankResult> results) {
  Measurement measurement{.transport = job.transport, .ranks = std::move(results)};
  for (size_t bucket = 0; bucket < job.buckets.size(); ++bucket) {
    std::vector<uint64_t> slowest;
    for (uint32_t iteration = 0; iteration < job.iterations; ++iteration) {
      uint64_t ns = 0;
      for (const RankResult& rank : measurement.ranks) {
        ns = std::max(ns, rank.elapsed_ns.at(iteration).at(bucket));
      }
      slowest.push_back(ns);
    }
    measurement.bucket_ns.push_back(median(std::move(slowest)));
    measurement.total_ns += measurement.bucket_ns.back();
  }
  return measurement;
}

const Measurement* Report::best_kernel() const {
  return fastest(kernels, [](const Measurement& measurement) { return measurement.total_ns; });
}

void check_daemon_counters(const std::vector<std::string>& hosts,
                           const std::vector<RankResult>& results) {
  struct HostBytes {
    tools::TcpPayloadBytes crossed;
    tools::TcpPayloadBytes before{UINT64_MAX, UINT64_MAX};
    tools::TcpPayloadBytes after;
    bool is_comparable = true;  // as is_checked_by_daemon(), of all ranks
  };
  std::map<std::string, HostBytes> by_host;
  for (size_t rank = 0; rank < results.size(); ++rank) {
    const RankResult& result = results[rank];
    HostBytes& host = by_host[hosts[rank]];
    host.is_comparable = host.is_comparable && is_checked_by_daemon(result);
    host.crossed.sent += result.crossed.sent;
    host.crossed.received += result.crossed.received;
    host.before.sent = std::min(host.before.sent, result.daemon_before.sent);
    host.before.received = std::min(host.before.received, result.daemon_before.received);
    host.after.sent = std::max(host.after.sent, result.daemon_after.sent);
    host.after.received = std::max(host.after.received, result.daemon_after.received);
  }
  for (const auto& [name, host] : by_host) {
    if (!host.is_comparable) continue;
    const uint64_t sent = host.after.sent - host.before.sent;
    const uint64_t received = host.after.received - host.before.received;
    if (sent >= host.crossed.sent && received >= host.crossed.received) continue;
    throw Failure("host " + name + ": the plugin moved " + std::to_string(host.crossed.sent) +
                  " bytes out and " + std::to_string(host.crossed.received) +
                  " in, but its daemon's TCP only " + std::to_string(sent) + " and " +
                  std::to_string(received));
  }
}

void print_table(const Report& report, std::ostream& out) {
  const bool has_kernel = !report.kernels.empty();
  out << std::fixed << std::setprecision(2);
  print_headline(report, out);
  out << std::left << std::setw(20) << "bucket" << std::right << std::setw(12) << "bytes"
      << std::setw(12) << "time us" << std::setw(10) << "alg GB/s" << std::setw(10) << "bus GB/s";
  if (has_kernel) out << std::setw(12) << "kernel bus" << std::setw(8) << "ratio";
  out << std::setw(14) << "verified" << (has_kernel ? "  kernel's best" : "") << "\n";
  for (size_t i = 0; i < report.buckets.size(); ++i) print_row(report, bucket_row(report, i), out);
  print_row(report, total_row(report), out);
  if (report.kernels.size() > 1) {
    out << "a line's ratio is to the kernel's fastest transport of that size, the total's to the "
        << "one with the smallest sum of all sizes\n";
  }
  for (const std::string& host : hosts_where(report, was_daemon_restarted)) {
    out << "host " << host << ": lyred was started again during the job, so its counters were not "
        << "compared with the plugin's bytes\n";
  }
  for (const std::string& host : hosts_where(report, is_at_domain)) {
    out << "host " << host << ": lyred shows no counters at a domain's socket, so they were not "
        << "compared with the plugin's bytes\n";
  }
}

json to_json(const Report& report) {
  json out = {{"schema", tools::kJsonSchema}};
  const Measurement* kernel = report.best_kernel();
  out["ratio"] =
      kernel != nullptr ? json(ratio_of(kernel->total_ns, report.plugin.total_ns)) : json(nullptr);
  out["collective"] = report.collective;
  out["ranks"] = report.hosts.size();
  out["hosts"] = report.hosts;
  out["iterations"] = report.iterations;
  out["seed"] = report.seed;
  out["plugin"] = measurement_json(report, report.plugin);
  out["kernel"] = json::array();
  for (const Measurement& other : report.kernels) {
    out["kernel"].push_back(measurement_json(report, other));
  }
  out["bytes_between_hosts"] = crossed_json(report);
  return out;
}

void print_json(const Report& report, std::ostream& out) {
  out << tools::json_text(to_json(report), false);
}

}  // namespace lyre::allreduce
