#pragma once

#include <string>

#include "tools/lyre/failure.h"

namespace lyre::tools {

/// The options of every sub-command.
struct GlobalOptions {
  std::string socket_path;  ///< empty: $LYRE_SOCKET, else /run/lyre/lyred.sock
  bool is_json = false;
  bool is_last = false;  ///< shows what the last daemon left

  const char* socket_or_default() const {
    return socket_path.empty() ? nullptr : socket_path.c_str();
  }
};

/// For `command`, which prints no JSON. Fails: throws Failure where --json was given.
inline void refuse_json(const GlobalOptions& globals, const std::string& command) {
  if (globals.is_json) throw Failure(kExitUsage, command + " has no --json");
}

}  // namespace lyre::tools
