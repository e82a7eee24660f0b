#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/files.h"

namespace lyre::tools {

/// A process that has mapped the receive pool of a lyred.
struct PoolHolder {
  int32_t pid = 0;
  std::string name;        ///< as the process has it: any bytes
  bool is_daemon = false;  ///< a lyred itself
};

/// Those that keep receive pools in memory. A pool of a lyred that runs is its own: its clients are
/// not among them. The pool of one that has ended is kept by clients that have not closed it, such
/// as a stopped process. In the order of their numbers, each once. Processes whose maps this user
/// may not read are left out: root sees all.
std::vector<PoolHolder> pool_holders(const machine::Roots& roots);

}  // namespace lyre::tools
