#pragma once

#include <string>

#include "tools/lyre/failure.h"

namespace lyre::allreduce {

/// Ends the command with exit code 1 and one line: what().
struct Failure : tools::Failure {
  explicit Failure(const std::string& line) : tools::Failure(tools::kExitFailure, line) {}
};

/// Ends the command with exit code 2: an option is wrong.
struct UsageError : tools::Failure {
  explicit UsageError(const std::string& line) : tools::Failure(tools::kExitUsage, line) {}
};

}  // namespace lyre::allreduce
