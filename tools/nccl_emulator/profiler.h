#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nccl_adapter/abi/common.h"

namespace lyre::nccl_emulator {

/// What the phandle of isend and irecv points to: the profiler's event of the message's step.
struct StepEvent {
  void* event = nullptr;
};

/// The profiler that a plugin's library may export as well, driven as NCCL drives it: an event for
/// the collective, below it one for each channel and direction, below that one for each message.
/// Where the profiler does not ask for events of net plugins, all event handles are null.
/// Thread: the progress thread, but for construction and destruction.
class Profiler {
 public:
  virtual ~Profiler() = default;

  /// Each call returns the event's handle, which stop() takes.
  virtual void* start_collective(uint64_t number, const char* name, uint64_t elements) = 0;
  virtual void* start_proxy_op(void* collective, int channel, int peer, bool is_send) = 0;
  virtual void* start_step(void* proxy_op, uint64_t step) = 0;
  virtual void stop(void* event) = 0;

  /// The callback that NCCL gives to a net plugin's init().
  static nccl_abi::ProfilerCallback network_callback();
};

/// Opens the profiler of the library at `path`, whose net plugin has been initialised with version
/// `abi`: v5 of the profiler ABI from `abi` 11 on (NCCL 2.28) where it is exported, otherwise v4.
/// Returns nullptr before `abi` 10 and where the library exports no profiler. There may be one a
/// process, since the callback of net plugins has no context.
/// Fails: throws Failure with the profiler's result.
std::unique_ptr<Profiler> load_profiler(const std::string& path, int abi, uint64_t comm_id,
                                        int rank, int ranks);

}  // namespace lyre::nccl_emulator
