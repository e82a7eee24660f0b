#pragma once

#include <stdexcept>

namespace lyre::allreduce {

/// Ends the command: what() is the one line that the user reads.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace lyre::allreduce
