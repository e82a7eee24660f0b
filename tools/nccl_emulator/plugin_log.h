#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "nccl_adapter/abi/common.h"

/// What plugins log in this process. NCCL's logger has no context argument, so there is one log a
/// process. Thread: any, for every function.
namespace lyre::nccl_emulator {

inline constexpr size_t kLogLinesMax = 4096;      // the newest lines are kept
inline constexpr size_t kLogLineBytesMax = 2047;  // the rest of a longer line is cut off

struct LogLine {
  nccl_abi::LogLevel level = nccl_abi::LogLevel::kNone;
  std::string text;
};

/// The logger that NetPlugin::init() and profilers are given.
nccl_abi::Logger plugin_logger();

/// Returns a copy of the kept lines, oldest first.
std::vector<LogLine> logged_lines();

/// Returns the newest kept line of level WARN, or an empty string.
std::string last_warning();

/// From now on each line is also written to stderr, or no longer.
void set_log_echo(bool is_enabled);

}  // namespace lyre::nccl_emulator
