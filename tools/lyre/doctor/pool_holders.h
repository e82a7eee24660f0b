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

/// Those that keep receive pools in hugepages: each lyred, and stopped processes with a pool that
/// no lyred has mapped. Processes that run are left out: a lyred out of sight may serve them, and
/// one that only computes closes its pool later. In the order of their numbers, each once. None
/// where the maps of a lyred cannot be read: the pool of a client may be its own. Other processes
/// whose maps this user may not read are left out: root of the host's PID namespace sees all.
std::vector<PoolHolder> pool_holders(const machine::Roots& roots);

}  // namespace lyre::tools
