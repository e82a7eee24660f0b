#include "tools/lyre/metrics/exporter.h"

#include <prometheus/text_serializer.h>

#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/lyre/failure.h"
#include "tools/lyre/metrics/families.h"
#include "tools/lyre/metrics/http_server.h"

namespace lyre::tools {
namespace {

using prometheus::MetricFamily;

int64_t steady_now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::vector<MetricFamily> joined(std::vector<MetricFamily> a, std::vector<MetricFamily> b) {
  a.insert(a.end(), std::make_move_iterator(b.begin()), std::make_move_iterator(b.end()));
  return a;
}

Snapshot look_at_daemon(const GlobalOptions& globals, ClientGroups& clients) {
  Snapshot snapshot = StatsSegment(globals.socket_or_default()).look();
  clients.look(snapshot, steady_now_ns());
  return snapshot;
}

/// The daemon, as scrapes see it. The reason for which it cannot be read is one line on stderr, and
/// another line when the reason changes or the daemon can be read again.
class ScrapedDaemon {
 public:
  explicit ScrapedDaemon(const GlobalOptions& globals) : globals_(globals) {}

  std::vector<MetricFamily> families() {
    try {
      const Snapshot snapshot = look_at_daemon(globals_, clients_);
      note("");
      return metrics_of(&snapshot, clients_);
    } catch (const Failure& failure) {
      note(failure.what());
      return metrics_of(nullptr, clients_);
    }
  }

 private:
  void note(const std::string& failure) {
    if (failure == failure_) return;
    std::cerr << "lyre: " << (failure.empty() ? "the daemon answers again" : failure) << std::endl;
    failure_ = failure;
  }

  const GlobalOptions& globals_;
  ClientGroups clients_;
  std::string failure_;  ///< of the last scrape; empty: none
};

/// NCCL's connections, as scrapes see them.
class ScrapedComms {
 public:
  explicit ScrapedComms(const MetricsOptions& options) : options_(options) {}

  std::vector<MetricFamily> families() {
    const CommsSnapshot comms = read_comms(options_.telemetry_directories, steady_now_ns());
    groups_.look(comms);
    std::vector<MetricFamily> out = metrics_of(comms, groups_);
    return options_.is_per_comm ? joined(std::move(out), metrics_of_each(comms)) : out;
  }

 private:
  const MetricsOptions& options_;
  CommGroups groups_;
};

std::string text_of(std::vector<MetricFamily> of_daemon, ScrapedComms& comms) {
  return prometheus::TextSerializer().Serialize(joined(std::move(of_daemon), comms.families()));
}

/// What a scrape gets, also where the daemon cannot be read.
/// Fails: throws Failure then, after it has printed.
void print_once(const GlobalOptions& globals, const MetricsOptions& options) {
  ClientGroups clients;
  ScrapedComms comms(options);
  std::vector<MetricFamily> of_daemon;
  std::optional<Failure> failure;
  try {
    const Snapshot snapshot = look_at_daemon(globals, clients);
    of_daemon = metrics_of(&snapshot, clients);
  } catch (const Failure& caught) {
    failure = caught;
    of_daemon = metrics_of(nullptr, clients);
  }
  std::cout << text_of(std::move(of_daemon), comms) << std::flush;
  if (failure) throw *failure;
}

}  // namespace

void run_metrics(const GlobalOptions& globals, const MetricsOptions& options) {
  if (options.is_once) return print_once(globals, options);
  ScrapedDaemon daemon(globals);
  ScrapedComms comms(options);
  serve_metrics(options.listen, [&] { return text_of(daemon.families(), comms); });
}

}  // namespace lyre::tools
