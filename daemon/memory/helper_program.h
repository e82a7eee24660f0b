#pragma once

#include <unistd.h>

#include <string>

#include "stack/base/result.h"

namespace lyre {

/// With this argument alone `lyred` is the memory helper.
inline constexpr const char* kMappingHelperArgument = "--memory-helper";
/// Where the memory helper has its socket.
inline constexpr int kMappingHelperDescriptor = STDERR_FILENO + 1;

/// Executes `program`, an absolute path, as the memory helper: in this process, with its
/// capabilities, environment and children. Returns only when that failed, with everything as
/// before, and says why. A process with capabilities executes only a file of root that nobody else
/// may write, because the daemon's user must not choose what has them.
/// REQUIRES: one thread; the socket is kMappingHelperDescriptor.
Error execute_mapping_helper(const std::string& program);

}  // namespace lyre
