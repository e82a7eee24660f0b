#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/settings.h"

/// How an init, or the first use of a communicator, comes to its instance.
/// Thread: any.
namespace lyre::nccl_adapter {

/// What an init has found.
struct Prepared {
  Settings settings;  ///< of the environment
  uint64_t communicator = 0;
  std::unique_ptr<Instance> instance;  ///< nullptr: to be opened when it is used
};

/// Attaches to the daemon of the settings. Where there is none, a process that used a daemon
/// before, or whose settings want Lyre, waits for LYRE_RESUME_SECONDS. `communicator`: see
/// Environment.
/// Fails: nullptr with a line that says why; with LYRE_REQUIRED the process ends.
std::unique_ptr<Instance> open_instance(const Settings& settings, uint64_t communicator);
/// For an init of the process's instance: with the environment's settings.
/// Fails: as open_instance(); also because of a wrong setting.
std::unique_ptr<Instance> open_process_instance();
/// For the init of a communicator. The first one of a process opens its instance. A later one
/// leaves that to the communicator's first use: NCCL gets the ports that are known. Where it will
/// count them anew, they are read anew, if the daemon takes a client now.
/// Fails: as open_process_instance().
std::optional<Prepared> prepare_instance(uint64_t communicator);

}  // namespace lyre::nccl_adapter
