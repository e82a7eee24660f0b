#pragma once

#include <csignal>
#include <iterator>
#include <string>
#include <vector>

#include "tools/lyre/nic/preparation.h"

/// Runs what `lyre nic` changes on this machine.
namespace lyre::tools {

/// Prints the command, on standard output where it is the answer, and runs it.
/// Fails: throws Failure: the program is not installed, was not started, or failed.
void run_command(const std::vector<std::string>& command, bool is_dry_run);
void run_commands(const Commands& commands, bool is_dry_run);

/// Runs the command that takes a NIC from the kernel, which forgets the addresses with the
/// interface. `section`, of lyred.toml with these addresses, is printed to standard error before:
/// whatever ends this process meanwhile, it is not lost. Fails: as run_command().
void take_from_kernel(const std::vector<std::string>& command, const std::string& section);

/// While it exists, Ctrl-C, a hang-up of the terminal and SIGTERM end neither this process nor
/// those that it starts: a NIC would be bound by half, or without what the service needs for it.
/// A reader of this process's output that has ended does not end this process either: SIGPIPE is
/// ignored, and run_program() gives children its default back.
/// Thread: one, while there is no other.
class UninterruptedSteps {
 public:
  UninterruptedSteps();
  ~UninterruptedSteps();
  UninterruptedSteps(const UninterruptedSteps&) = delete;
  UninterruptedSteps& operator=(const UninterruptedSteps&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGHUP, SIGTERM, SIGPIPE};
  sighandler_t before_[std::size(kSignals)];
};

}  // namespace lyre::tools
