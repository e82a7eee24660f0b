#include "tools/lyre/perf.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/perf/client.h"
#include "tools/lyre/perf/server.h"
#include "tools/lyre/value_checks.h"

namespace lyre::tools {
namespace {

using namespace lyre::perf;

constexpr uint64_t kUnackedBytesMin = 1;
constexpr uint64_t kUnackedBytesMax = uint64_t{1} << 30;
constexpr uint64_t kTransferBytesMax = uint64_t{1} << 60;

/// The options of a transport, as parsed.
struct TransportFlags {
  bool is_kernel = false;
  NetworkOptions network{.socket_path = {}, .unacked_bytes_max = 4u << 20};
};

void add_transport_options(CLI::App& command, TransportFlags& flags) {
  CLI::Option* kernel =
      command.add_flag("--kernel", flags.is_kernel, "Use the kernel's sockets instead of Lyre");
  command
      .add_flag("--copy", flags.network.is_copying,
                "Lyre: use the calls that copy (lyre_send, lyre_recv) instead of zero copy")
      ->excludes(kernel);
  command.add_flag("--zerocopy", flags.network.is_zero_copy, "Kernel: send with MSG_ZEROCOPY")
      ->needs(kernel);
  command.add_flag("--spin", flags.network.is_spinning, "Poll instead of sleeping");
  command
      .add_option("--unacked", flags.network.unacked_bytes_max,
                  "Lyre: the most unacknowledged bytes of a session")
      ->transform(size_between(kUnackedBytesMin, kUnackedBytesMax))
      ->default_str("4MiB")
      ->excludes(kernel);
}

std::unique_ptr<Network> make_network(const TransportFlags& flags, const GlobalOptions& globals) {
  if (flags.is_kernel) return make_kernel_network(flags.network);
  NetworkOptions options = flags.network;
  options.socket_path = globals.socket_path;
  return make_lyre_network(options);
}

lyre_addr parse_address(const std::string& text) {
  lyre_addr out{};
  if (lyre_addr_parse(text.c_str(), &out) != 0) throw Failure(kExitUsage, lyre_last_error());
  return out;
}

void add_server(CLI::App& perf, const GlobalOptions& globals) {
  struct Flags {
    TransportFlags transport;
    std::string listen = ":5201";
    bool is_once = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = perf.add_subcommand("server", "Serve perf clients until it is interrupted");
  command->add_option("--listen", flags->listen, "The address to listen on, ADDR:PORT")
      ->default_str(":5201");
  command->add_flag("--once", flags->is_once, "Serve one client, then exit");
  add_transport_options(*command, flags->transport);
  command->callback([flags, &globals] {
    const lyre_addr listen = parse_address(flags->listen);
    const auto network = make_network(flags->transport, globals);
    run_server(*network, {.listen = listen, .is_once = flags->is_once, .is_json = globals.is_json});
  });
}

struct ClientFlags {
  TransportFlags transport;
  std::string server;
  std::string direction = "tx";
  uint64_t bytes = 0;
  double seconds = 0;
  bool is_ping_pong = false;
  uint64_t block_bytes = 128 * 1024;
  uint64_t message_bytes = 64;
  uint64_t count = 10'000;
  double interval_s = 0;
  uint32_t sessions = 1;
  bool has_hash = false;
  bool is_untouched = false;
  uint64_t seed = 1;
};

Plan plan_of(const ClientFlags& flags) {
  Plan plan;
  plan.kind = flags.is_ping_pong ? Kind::kPingPong : Kind::kBulk;
  plan.direction = flags.direction == "tx"   ? Direction::kToServer
                   : flags.direction == "rx" ? Direction::kToClient
                                             : Direction::kBoth;
  plan.has_hash = flags.has_hash;
  plan.is_untouched = flags.is_untouched;
  plan.bytes = flags.bytes;
  plan.duration_ms = static_cast<uint64_t>(flags.seconds * 1000);
  if (plan.bytes == 0 && plan.duration_ms == 0) plan.duration_ms = 10'000;
  plan.block_bytes = static_cast<uint32_t>(flags.block_bytes);
  plan.message_bytes = static_cast<uint32_t>(flags.message_bytes);
  plan.count = flags.count;
  plan.interval_ns = static_cast<int64_t>(flags.interval_s * 1e9);
  plan.seed = flags.seed;
  return plan;
}

/// `of_throughput`: options that mean nothing to it.
void add_ping_pong_options(CLI::App& command, const std::vector<CLI::Option*>& of_throughput,
                           ClientFlags& flags) {
  CLI::Option* ping_pong = command.add_flag("--ping-pong", flags.is_ping_pong,
                                            "Measure round trips instead of throughput");
  for (CLI::Option* option : of_throughput) ping_pong->excludes(option);
  command.add_option("--message", flags.message_bytes, "Ping-pong: bytes of a message")
      ->transform(size_between(1, kMessageBytesMax))
      ->capture_default_str()
      ->needs(ping_pong);
  command.add_option("--count", flags.count, "Ping-pong: round trips")
      ->check(count_between(1, 100'000'000))
      ->capture_default_str()
      ->needs(ping_pong);
  command
      .add_option("--interval", flags.interval_s,
                  "Ping-pong: seconds between round trips, rounded up to milliseconds")
      ->check(seconds_between(0, 60))
      ->needs(ping_pong);
}

void add_client_options(CLI::App& command, ClientFlags& flags) {
  command.add_option("server", flags.server, "The server's ADDR:PORT")->required();
  CLI::Option* bytes =
      command.add_option("--bytes", flags.bytes, "Bytes of each session and direction")
          ->transform(size_between(1, kTransferBytesMax));
  CLI::Option* seconds =
      command.add_option("--seconds", flags.seconds, "Seconds instead of bytes (default 10)")
          ->check(seconds_between(0.01, 86400))
          ->excludes(bytes);
  CLI::Option* direction =
      command.add_option("--direction", flags.direction, "tx (client to server), rx or both")
          ->check(CLI::IsMember({"tx", "rx", "both"}))
          ->capture_default_str();
  CLI::Option* block = command.add_option("--block", flags.block_bytes, "Bytes of one write")
                           ->transform(size_between(1024, kBlockBytesMax))
                           ->default_str("128KiB");
  add_ping_pong_options(command, {bytes, seconds, direction, block}, flags);
  command.add_option("--sessions", flags.sessions, "Sessions at the same time")
      ->check(count_between(1, 4096))
      ->capture_default_str();
  CLI::Option* verify = command.add_flag(
      "--verify", flags.has_hash, "Compare SHA-256 of both sides; the pattern is always checked");
  command.add_flag("--untouched", flags.is_untouched, "Do not write or read the payload")
      ->excludes(verify);
  command.add_option("--seed", flags.seed, "Seed of the payload's pattern")
      ->check(count_between(0, UINT64_MAX))
      ->capture_default_str();
  add_transport_options(command, flags.transport);
}

void add_client(CLI::App& perf, const GlobalOptions& globals) {
  auto flags = std::make_shared<ClientFlags>();
  CLI::App* command = perf.add_subcommand("client", "Run a test against a perf server");
  add_client_options(*command, *flags);
  command->callback([flags, &globals] {
    const lyre_addr server = parse_address(flags->server);
    if (server.port == 0) throw Failure(kExitUsage, "the server's port is missing: ADDR:PORT");
    const auto network = make_network(flags->transport, globals);
    run_client(*network, {.server = server,
                          .plan = plan_of(*flags),
                          .sessions = flags->sessions,
                          .is_json = globals.is_json});
  });
}

}  // namespace

void add_perf(CLI::App& app, const GlobalOptions& globals) {
  CLI::App* perf = app.add_subcommand("perf", "Measure throughput and latency");
  perf->require_subcommand(1);
  perf->fallthrough();
  add_server(*perf, globals);
  add_client(*perf, globals);
}

}  // namespace lyre::tools
