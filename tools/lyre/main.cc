#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "nccl_adapter/abi/telemetry.h"
#include "tools/lyre/allreduce.h"
#include "tools/lyre/clients.h"
#include "tools/lyre/comms.h"
#include "tools/lyre/doctor.h"
#include "tools/lyre/environment.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/nic.h"
#include "tools/lyre/options.h"
#include "tools/lyre/perf.h"
#include "tools/lyre/sessions.h"
#include "tools/lyre/stats.h"
#include "tools/lyre/status.h"
#include "tools/lyre/value_checks.h"

namespace {

using namespace lyre::tools;

void add_status(CLI::App& app, const GlobalOptions& globals) {
  app.add_subcommand("status", "The daemon, its ports and its workers")->callback([&globals] {
    run_status(globals);
  });
}

constexpr double kWatchSecondsMin = 0.1;
constexpr double kWatchSecondsMax = 86400;

/// `--watch [SECONDS]`, for commands that repeat.
class Watch {
 public:
  Watch(CLI::App& command, const char* text)
      : option_(command.add_option("--watch", *interval_s_, text)) {
    option_->check(seconds_between(kWatchSecondsMin, kWatchSecondsMax))
        ->expected(0, 1)
        ->default_str("1");
  }
  std::optional<double> interval_s() const {
    return option_->count() > 0 ? std::optional(*interval_s_) : std::nullopt;
  }

 private:
  std::shared_ptr<double> interval_s_ = std::make_shared<double>(1);
  CLI::Option* option_;
};

void add_session_filter(CLI::App& command, SessionFilter& filter) {
  command.add_option("--state", filter.state, "Only this state, such as ESTABLISHED");
  command.add_option("--peer", filter.peer, "Only this peer: ADDRESS or ADDRESS:PORT");
  command.add_option("--port", filter.port, "Only this port, of either side");
  command.add_option("--pid", filter.pid, "Only clients of this process");
  command.add_option("--label", filter.label, "Only clients whose label has this in it");
  command.add_flag("--all", filter.has_time_wait, "Also what is in TIME-WAIT");
  static const std::map<std::string, SessionFilter::Order> kOrders{
      {"sent", SessionFilter::Order::kSent},
      {"received", SessionFilter::Order::kReceived},
      {"rtt", SessionFilter::Order::kRtt},
      {"age", SessionFilter::Order::kAge},
      {"queued", SessionFilter::Order::kQueued}};
  command
      .add_option_function<std::string>(
          "--sort", [&filter](const std::string& key) { filter.order = kOrders.at(key); },
          "The largest first: sent, received, rtt, age or queued")
      ->check(CLI::IsMember(kOrders).description(""))
      ->type_name("KEY");
}

void add_sessions(CLI::App& app, const GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand(
      "sessions", "Connections and listeners, one a line, with the rates of the last second");
  const Watch watch(*command, "Print again after each interval, with the rates in it");
  auto options = std::make_shared<SessionOptions>();
  command->add_flag("--wide", options->is_wide, "More columns, nothing cut");
  command->add_flag("--detail", options->has_details, "Several lines a session, like ss -ti");
  add_session_filter(*command, options->filter);
  command->callback([&globals, watch, options] {
    options->watch_s = watch.interval_s();
    run_sessions(globals, *options);
  });
}

void add_clients(CLI::App& app, const GlobalOptions& globals) {
  CLI::App* command =
      app.add_subcommand("clients", "What each client holds of the daemon, and how much it may");
  command->callback([&globals] { run_clients(globals); });
}

void add_comms(CLI::App& app, const GlobalOptions& globals) {
  CLI::App* command =
      app.add_subcommand("comms", "NCCL's connections over Lyre, and what each one waits for");
  const Watch watch(*command, "Print again after each interval");
  auto directory = std::make_shared<std::string>(lyre::nccl_abi::kTelemetryDirectory);
  command
      ->add_option("--directory", *directory,
                   "The directory that the plugin writes into (LYRE_TELEMETRY_DIR)")
      ->envname("LYRE_TELEMETRY_DIR");
  command->callback(
      [&globals, watch, directory] { run_comms(globals, *directory, watch.interval_s()); });
}

void add_stats(CLI::App& app, const GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand("stats", "Counters, and dropped packets by reason");
  auto has_zeros = std::make_shared<bool>(false);
  command->add_flag("--all", *has_zeros, "Also show counters that are zero");
  command->callback([&globals, has_zeros] { run_stats(globals, *has_zeros); });
}

int fail(int exit_code, const std::string& line) {
  std::cerr << "lyre: " << line << std::endl;
  return exit_code;
}

/// Not in the rank processes of `lyre allreduce`: the command itself has printed the lines.
void warn_of_unknown_settings(const CLI::App& app) {
  if (is_rank_process(app)) return;
  for (const std::string& line : unknown_settings(environ)) fail(0, line);
}

int parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();  // the command has printed the reason
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::RequiredError& error) {
    const std::vector<std::string> rest = app.remaining();
    if (rest.empty()) return fail(kExitUsage, std::string(error.what()) + " (see lyre --help)");
    return fail(kExitUsage, "there is no command '" + rest.front() + "' (see lyre --help)");
  } catch (const CLI::ParseError& error) {
    return fail(kExitUsage, std::string(error.what()) + " (see lyre --help)");
  } catch (const Failure& failure) {
    return fail(failure.exit_code(), failure.what());
  } catch (const std::exception& error) {
    return fail(kExitFailure, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Shows the state of the Lyre network stack, and measures it", "lyre");
  GlobalOptions globals;
  app.set_version_flag("--version", std::string("lyre ") + lyre_version());
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--socket", globals.socket_path,
                 "The daemon's socket ($LYRE_SOCKET, /run/lyre/lyred.sock)");
  app.add_flag("--json", globals.is_json, "Print JSON");
  add_status(app, globals);
  add_sessions(app, globals);
  add_clients(app, globals);
  add_comms(app, globals);
  add_stats(app, globals);
  add_doctor(app, globals);
  add_nic(app, globals);
  add_perf(app, globals);
  add_allreduce(app);
  app.parse_complete_callback([&app] { warn_of_unknown_settings(app); });
  return parse(app, argc, argv);
}
