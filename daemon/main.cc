#include <signal.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstdio>
#include <functional>
#include <string>

#include "daemon/backend.h"
#include "daemon/config.h"
#include "daemon/launcher.h"
#include "daemon/logging.h"
#include "daemon/machine_check.h"
#include "daemon/port_sockets.h"

namespace lyre {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitBadConfig = 2;

int complain(const std::string& text, int code) {
  std::fprintf(stderr, "lyred: %s\n", text.c_str());
  return code;
}

void wait_for_signal(boost::asio::signal_set& signals, Launcher& launcher) {
  signals.async_wait([&](const boost::system::error_code& error, int number) {
    if (error) return;
    if (number == SIGHUP) {
      spdlog::info("SIGHUP ignored: the configuration is read at the start only");
    } else {
      launcher.begin_stop();
    }
    wait_for_signal(signals, launcher);
  });
}

int serve(const Config& config) {
  boost::asio::io_context io;
  // Before any thread or DPDK: from here on these signals reach only the queue that is read below.
  boost::asio::signal_set signals(io, SIGTERM, SIGINT, SIGHUP);
  ::signal(SIGPIPE, SIG_IGN);
  start_logging(config.log_level);
  auto launcher = Launcher::start(config, io, start_backend);
  if (!launcher.ok()) return complain(launcher.error().text, kExitFailed);
  wait_for_signal(signals, **launcher);
  io.run();
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{"The Lyre daemon: a user-space TCP stack for the programs of this machine", "lyred"};
  std::string config_path = "/etc/lyre/lyred.toml";
  bool only_check = false;
  app.add_option("--config", config_path, "Configuration file")->capture_default_str();
  app.add_flag("--check", only_check, "Check the configuration and exit");
  app.set_version_flag("--version", "lyred " LYRE_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return complain(error.what(), kExitBadConfig);
  }
  auto config = load_config(config_path);
  if (!config.ok()) return complain(config.error().text, kExitBadConfig);
  const Status machine = check_machine(*config, NicGuard());
  if (!machine.ok()) return complain(machine.error().text, kExitBadConfig);
  if (only_check) {
    std::printf("%s: right\n", config_path.c_str());
    return 0;
  }
  const Status sockets = prepare_port_sockets(*config);
  if (!sockets.ok()) return complain(sockets.error().text, kExitBadConfig);
  return serve(*config);
}

}  // namespace
}  // namespace lyre

int main(int argc, char** argv) {
  try {
    return lyre::run(argc, argv);
  } catch (const std::exception& error) {
    return lyre::complain(error.what(), lyre::kExitFailed);
  }
}
