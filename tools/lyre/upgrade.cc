#include "tools/lyre/upgrade.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "libclient/include/lyre/lyre.h"
#include "libclient/upgrade.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/json_document.h"

namespace lyre::tools {
namespace {

std::string upgraded_text(const client::Upgraded& done) {
  char pause[32];
  std::snprintf(pause, sizeof pause, "%.1f", done.pause_us / 1000.0);
  return "process " + std::to_string(done.pid) + ", release " + done.release + ", serves after " +
         pause + " ms without a turn\n";
}

nlohmann::ordered_json upgraded_json(const client::Upgraded& done) {
  return document_of(
      {{"pid", done.pid}, {"release", done.release}, {"pause_ns", uint64_t{done.pause_us} * 1000}});
}

void run_upgrade(const GlobalOptions& globals) {
  if (::isatty(STDERR_FILENO) != 0) {
    std::cerr << "asking for an upgrade; Ctrl-C does not stop one that has begun" << std::endl;
  }
  client::Upgraded done;
  const int code = client::upgrade_daemon(globals.socket_or_default(), done);
  if (done.was_refused) throw Failure(kExitFailure, lyre_last_error(), code);
  if (code != 0) throw library_failure(code);
  if (globals.is_json) {
    std::cout << json_text(upgraded_json(done), false) << std::flush;
  } else {
    std::cout << upgraded_text(done) << std::flush;
  }
}

}  // namespace

void add_upgrade(CLI::App& app, const GlobalOptions& globals) {
  app.add_subcommand(
         "upgrade",
         "Start the daemon's program again and go on in the new process with the same "
         "sessions. For root and the daemon's user. If it fails, the daemon goes on as it was")
      ->callback([&globals] { run_upgrade(globals); });
}

}  // namespace lyre::tools
