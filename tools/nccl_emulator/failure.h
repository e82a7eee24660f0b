#pragma once

#include <stdexcept>
#include <string>

#include "nccl_adapter/abi/common.h"

namespace lyre::nccl_emulator {

/// What this library throws: what() is one line for the user.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Fails: throws Failure "<what>: <result name>[: <last warning>]" unless `result` is success. The
/// warning is the last line that a plugin logged at WARN in this process.
void require_success(nccl_abi::Result result, const std::string& what);

}  // namespace lyre::nccl_emulator
