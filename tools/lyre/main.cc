#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "tools/lyre/allreduce.h"
#include "tools/lyre/comms.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/options.h"
#include "tools/lyre/perf.h"
#include "tools/lyre/sessions.h"
#include "tools/lyre/stats.h"
#include "tools/lyre/status.h"

namespace {

using namespace lyre::tools;

int fail(int exit_code, const std::string& line) {
  std::cerr << "lyre: " << line << std::endl;
  return exit_code;
}

int parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();  // the command has said why
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
  CLI::App app("Looks inside the Lyre network stack, and measures it", "lyre");
  GlobalOptions globals;
  app.set_version_flag("--version", std::string("lyre ") + lyre_version());
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--socket", globals.socket_path,
                 "The daemon's socket ($LYRE_SOCKET, /run/lyre/lyred.sock)");
  app.add_flag("--json", globals.is_json, "Print JSON");
  add_status(app, globals);
  add_sessions(app, globals);
  add_comms(app, globals);
  add_stats(app, globals);
  add_perf(app, globals);
  add_allreduce(app);
  return parse(app, argc, argv);
}
