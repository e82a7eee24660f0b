#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "nccl_adapter/abi/setting_names.h"
#include "tools/lyre/allreduce.h"
#include "tools/lyre/command_line.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/options.h"

namespace {

using namespace lyre::tools;

int fail(int exit_code, const std::string& line) {
  std::cerr << "lyre: " << line << std::endl;
  return exit_code;
}

/// Not in the rank processes of `lyre allreduce`: the command itself has printed the lines.
void warn_of_unknown_settings(const CLI::App& app) {
  if (is_rank_process(app)) return;
  for (const std::string& line : lyre::nccl_abi::unknown_settings(environ)) fail(0, line);
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
  CLI::App app;
  GlobalOptions globals;
  define_command_line(app, globals);
  app.parse_complete_callback([&app] { warn_of_unknown_settings(app); });
  return parse(app, argc, argv);
}
