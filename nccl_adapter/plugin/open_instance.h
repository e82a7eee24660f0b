#pragma once

#include <cstdint>
#include <memory>

#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/settings.h"

/// How an init comes to its instance.
/// Thread: any.
namespace lyre::nccl_adapter {

/// Attaches to the daemon of the environment's settings. Where there is none, a process that used a
/// daemon before, or whose settings want Lyre, waits for LYRE_RESUME_SECONDS. `communicator`: see
/// Environment.
/// Fails: nullptr with a line that says why; with LYRE_REQUIRED the process ends.
std::unique_ptr<Instance> open_instance(uint64_t communicator);
/// The same with settings that were read before.
std::unique_ptr<Instance> open_instance(const Settings& settings, uint64_t communicator);

}  // namespace lyre::nccl_adapter
