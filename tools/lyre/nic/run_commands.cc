#include "tools/lyre/nic/run_commands.h"

#include <cerrno>
#include <cstring>
#include <iostream>

#include "tools/lyre/child_program.h"
#include "tools/lyre/failure.h"

namespace lyre::tools {
namespace {

std::string quoted(const std::string& word) {
  return word.find(' ') == std::string::npos ? word : "'" + word + "'";
}

}  // namespace

void run_command(const std::vector<std::string>& command, bool is_dry_run) {
  std::ostream& out = is_dry_run ? std::cout : std::cerr;
  for (const std::string& word : command) out << (&word == &command[0] ? "" : " ") << quoted(word);
  out << std::endl;
  if (is_dry_run) return;
  const auto status = run_program(command);
  const int error = errno;
  if (!status && error == ENOENT) {
    throw Failure(kExitFailure, command[0] + " is not installed: apt install " + command[0]);
  }
  if (!status) {
    throw Failure(kExitFailure, command[0] + " was not started: " + std::strerror(error));
  }
  if (*status != 0) throw Failure(kExitFailure, command[0] + " failed");
}

void run_commands(const Commands& commands, bool is_dry_run) {
  for (const auto& command : commands) run_command(command, is_dry_run);
}

void take_from_kernel(const std::vector<std::string>& command, const std::string& section) {
  std::cerr << "# If this command does not end, add this section to lyred.toml:" << section
            << std::flush;
  run_command(command, false);
}

UninterruptedSteps::UninterruptedSteps() {
  for (size_t i = 0; i < std::size(kSignals); ++i) before_[i] = std::signal(kSignals[i], SIG_IGN);
}

UninterruptedSteps::~UninterruptedSteps() {
  for (size_t i = 0; i < std::size(kSignals); ++i) std::signal(kSignals[i], before_[i]);
}

}  // namespace lyre::tools
