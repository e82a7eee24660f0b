#include "tools/lyre/metrics/exporter.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/metrics/families.h"
#include "tools/lyre/metrics/unix_server.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

using boost::asio::ip::tcp;
using prometheus::MetricFamily;

constexpr const char* kServerThreads = "32";
constexpr const char* kRequestTimeoutMs = "2000";

CommsSnapshot comms_now(const std::vector<std::string>& directories) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return read_comms(directories, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

std::vector<MetricFamily> joined(std::vector<MetricFamily> a, std::vector<MetricFamily> b) {
  a.insert(a.end(), std::make_move_iterator(b.begin()), std::make_move_iterator(b.end()));
  return a;
}

/// Reads the daemon's segment at each scrape.
class Daemon : public prometheus::Collectable {
 public:
  Daemon(const GlobalOptions& globals, const MetricsOptions& options)
      : globals_(globals), options_(options) {}

  std::vector<MetricFamily> Collect() const override {
    return joined(of_daemon(), metrics_of(comms_now(options_.telemetry_directories)));
  }

 private:
  std::vector<MetricFamily> of_daemon() const {
    try {
      const Snapshot snapshot = StatsSegment(globals_.socket_or_default()).look();
      return metrics_of(&snapshot);
    } catch (const Failure&) {
      return metrics_of(nullptr);
    }
  }

  const GlobalOptions& globals_;
  const MetricsOptions& options_;
};

std::string text_of(const std::vector<MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

void print_once(const GlobalOptions& globals, const MetricsOptions& options) {
  const Snapshot snapshot = StatsSegment(globals.socket_or_default()).look();
  std::cout << text_of(joined(metrics_of(&snapshot),
                              metrics_of(comms_now(options.telemetry_directories))))
            << std::flush;
}

tcp::endpoint endpoint_of(const std::string& text) {
  lyre_addr address{};
  if (text.starts_with(':') || lyre_addr_parse(text.c_str(), &address) != 0 || address.port == 0) {
    throw Failure(kExitUsage, "--listen: '" + text +
                                  "' is neither ADDR:PORT, as 127.0.0.1:9417, nor the path of a "
                                  "UNIX socket");
  }
  return {boost::asio::ip::make_address(format_address(address.address)), address.port};
}

/// The library's server does not say why it cannot listen.
std::string obstacle(const tcp::endpoint& endpoint) {
  boost::asio::io_context io;
  tcp::acceptor acceptor(io);
  boost::system::error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(1, error);
  return error ? error.message() : "the server does not start";
}

/// The library's server. Each connection has a thread until it ends, so one that sends nothing must
/// not keep it for the 30 s that the library allows by default.
std::unique_ptr<prometheus::Exposer> listen_at(const std::string& address) {
  const tcp::endpoint endpoint = endpoint_of(address);
  try {
    return std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", address, "num_threads", kServerThreads,
                                 "request_timeout_ms", kRequestTimeoutMs});
  } catch (const std::exception&) {
    throw Failure(kExitFailure, "cannot listen on " + address + ": " + obstacle(endpoint));
  }
}

}  // namespace

void run_metrics(const GlobalOptions& globals, const MetricsOptions& options) {
  if (options.is_once) return print_once(globals, options);
  if (options.listen.starts_with('/')) {
    const Daemon daemon(globals, options);
    return serve_on_unix_socket(options.listen, [&daemon] { return text_of(daemon.Collect()); });
  }
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGINT);
  ::sigaddset(&ends, SIGTERM);
  // Before there are threads, so that each of them has it.
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  const auto server = listen_at(options.listen);
  const auto daemon = std::make_shared<Daemon>(globals, options);
  server->RegisterCollectable(daemon);
  std::cerr << "serving http://" << options.listen << "/metrics" << std::endl;
  int signal = 0;
  ::sigwait(&ends, &signal);
}

}  // namespace lyre::tools
