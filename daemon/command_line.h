#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lyre {

struct DaemonOptions {
  std::string config_path = "/etc/lyre/lyred.toml";
  bool only_check = false;
  bool only_upgrade = false;
  /// Asked by `lyre`: which of these NICs this version of DPDK cannot drive.
  std::vector<std::string> nics_to_check;
  bool takes_over = false;  ///< given by a daemon that is upgraded to the process that it starts
  bool is_memory_helper = false;  ///< given by a memory helper that replaces itself
};

/// The options of `lyred`: what is parsed, and from which its manual page is made.
/// Owner: `app` *shares* `options`, which outlives it.
void define_daemon_command_line(CLI::App& app, DaemonOptions& options);

}  // namespace lyre
