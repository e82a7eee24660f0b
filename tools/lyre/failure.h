#pragma once

#include <stdexcept>
#include <string>

namespace lyre::tools {

/// Exit codes of the lyre command.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoDaemon = 3;
/// A daemon answers, or left what was asked for, whose stats segment this command does not read.
inline constexpr int kExitOtherRelease = 4;

/// Ends the command with one line and an exit code.
class Failure : public std::runtime_error {
 public:
  /// `lyre_code`: the LYRE_E value behind it, or 0.
  Failure(int exit_code, const std::string& line, int lyre_code = 0)
      : std::runtime_error(line), exit_code_(exit_code), lyre_code_(lyre_code) {}
  int exit_code() const { return exit_code_; }
  int lyre_code() const { return lyre_code_; }

 private:
  int exit_code_;
  int lyre_code_;
};

/// The last error of the client library, as a Failure. `code` is a LYRE_E value.
Failure library_failure(int code);

}  // namespace lyre::tools
