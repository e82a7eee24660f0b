#include "tools/lyre/look_commands.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tools/lyre/clients.h"
#include "tools/lyre/comms.h"
#include "tools/lyre/network.h"
#include "tools/lyre/sessions.h"
#include "tools/lyre/stats.h"
#include "tools/lyre/status.h"
#include "tools/lyre/trace.h"
#include "tools/lyre/value_checks.h"
#include "tools/lyre/watch_option.h"

namespace lyre::tools {
namespace {

constexpr const char* kWatchText = "Print again after each interval, with the rates in it";

/// `--last`, for commands that also show a daemon that has ended.
void add_last(CLI::App& command, GlobalOptions& globals, const WatchOption* watch) {
  CLI::Option* last = command.add_flag("--last", globals.is_last,
                                       "What the last daemon left when it stopped or died");
  if (watch != nullptr) watch->exclude(*last);
}

void add_status(CLI::App& app, GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand("status", "The daemon, its ports and its workers");
  const WatchOption watch(*command, kWatchText);
  add_last(*command, globals, &watch);
  command->callback([&globals, watch] { run_status(globals, watch.interval_s()); });
}

void add_session_filter(CLI::App& command, SessionFilter& filter) {
  command.add_option("--state", filter.state, "Only this state, such as ESTABLISHED")
      ->check(CLI::IsMember(session_state_names(), CLI::ignore_case).description(""))
      ->type_name("STATE");
  command.add_option("--peer", filter.peer, "Only this peer: ADDRESS or ADDRESS:PORT")
      ->transform(peer_address())
      ->type_name("PEER");
  command.add_option("--port", filter.port, "Only this port, of either side")
      ->check(count_between(1, UINT16_MAX))
      ->type_name("PORT");
  command.add_option("--pid", filter.pid, "Only clients of this process")
      ->check(count_between(0, INT32_MAX))
      ->type_name("PID");
  command.add_option("--label", filter.label, "Only clients whose label has this in it");
  command.add_flag("--all", filter.has_time_wait, "Also what is in TIME-WAIT");
  static const std::map<std::string, SessionFilter::Order> kOrders{
      {"sent", SessionFilter::Order::kSent},
      {"received", SessionFilter::Order::kReceived},
      {"retransmitted", SessionFilter::Order::kRetransmitted},
      {"rtt", SessionFilter::Order::kRtt},
      {"age", SessionFilter::Order::kAge},
      {"queued", SessionFilter::Order::kQueued}};
  command
      .add_option_function<std::string>(
          "--sort", [&filter](const std::string& key) { filter.order = kOrders.at(key); },
          "The largest first: sent, received, retransmitted, rtt, age or queued")
      ->check(CLI::IsMember({"sent", "received", "retransmitted", "rtt", "age", "queued"}));
}

void add_sessions(CLI::App& app, GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand(
      "sessions", "Connections and listeners, one a line, with the rates of the last second");
  const WatchOption watch(*command, kWatchText);
  auto options = std::make_shared<SessionOptions>();
  command->add_flag("--wide", options->is_wide, "More columns, nothing cut");
  command->add_flag("--detail", options->has_details, "Several lines a session, like ss -ti");
  add_session_filter(*command, options->filter);
  add_last(*command, globals, &watch);
  command->callback([&globals, watch, options] {
    options->watch_s = watch.interval_s();
    run_sessions(globals, *options);
  });
}

void add_trace(CLI::App& app, GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand(
      "trace",
      "What happened to a session: its last events; without one, sessions that ended badly");
  auto session = std::make_shared<std::string>();
  command->add_option("SESSION", *session,
                      "Its peer (ADDRESS or ADDRESS:PORT), or its own port (:PORT)");
  add_last(*command, globals, nullptr);
  command->callback([&globals, session] { run_trace(globals, *session); });
}

void add_clients(CLI::App& app, GlobalOptions& globals) {
  CLI::App* command =
      app.add_subcommand("clients", "What each client holds of the daemon, and how much it may");
  const WatchOption watch(*command, kWatchText);
  add_last(*command, globals, &watch);
  command->callback([&globals, watch] { run_clients(globals, watch.interval_s()); });
}

void add_comms(CLI::App& app, GlobalOptions& globals) {
  CLI::App* command =
      app.add_subcommand("comms", "NCCL's connections over Lyre, and what each one waits for");
  const WatchOption watch(*command, "Print again after each interval");
  auto directory = std::make_shared<std::string>();
  command->add_option("--directory", *directory, kTelemetryDirectoryHelp)
      ->envname("LYRE_TELEMETRY_DIR");
  command->callback([&globals, watch, directory] {
    check_telemetry_directory(*directory);
    run_comms(globals, telemetry_directories(*directory), watch.interval_s());
  });
}

void add_stats(CLI::App& app, GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand("stats", "Counters, and dropped packets by reason");
  auto options = std::make_shared<StatsOptions>();
  command->add_flag("--all", options->has_zeros, "Also show counters that are zero");
  command->add_flag("--workers", options->has_workers,
                    "A column for each worker, also where there are more than " +
                        std::to_string(kWorkerColumnsMax));
  const WatchOption watch(*command, kWatchText);
  add_last(*command, globals, &watch);
  command->callback(
      [&globals, options, watch] { run_stats(globals, *options, watch.interval_s()); });
}

void add_ports(CLI::App& app, GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand("ports", "Traffic and losses of each port");
  const WatchOption watch(*command, kWatchText);
  add_last(*command, globals, &watch);
  command->callback([&globals, watch] { run_ports(globals, watch.interval_s()); });
}

void add_neighbours(CLI::App& app, GlobalOptions& globals) {
  CLI::App* command =
      app.add_subcommand("neighbours", "MAC addresses of neighbours, by ARP and NDP");
  const WatchOption watch(*command, "Print again after each interval");
  add_last(*command, globals, &watch);
  command->callback([&globals, watch] { run_neighbours(globals, watch.interval_s()); });
}

void add_routes(CLI::App& app, GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand("routes", "Routes, in the order in which they are tried");
  const WatchOption watch(*command, "Print again after each interval");
  add_last(*command, globals, &watch);
  command->callback([&globals, watch] { run_routes(globals, watch.interval_s()); });
}

}  // namespace

void add_look_commands(CLI::App& app, GlobalOptions& globals) {
  add_status(app, globals);
  add_sessions(app, globals);
  add_trace(app, globals);
  add_clients(app, globals);
  add_comms(app, globals);
  add_stats(app, globals);
  add_ports(app, globals);
  add_neighbours(app, globals);
  add_routes(app, globals);
}

}  // namespace lyre::tools
