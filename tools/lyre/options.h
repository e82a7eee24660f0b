#pragma once

#include <string>

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

}  // namespace lyre::tools
