#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nccl_adapter/abi/common.h"

namespace lyre::allreduce {

/// What a phandle of isend and irecv points to: the step that the message carries out.
struct StepEvent {
  void* event = nullptr;
};

/// The profiler that a plugin's library may bring along, driven as NCCL drives it: a collective,
/// below it an operation for each channel and direction, below that a step for each message. Where
/// the profiler does not ask for such events, all handles are null.
/// Thread: the progress thread's.
class Profiler {
 public:
  virtual ~Profiler() = default;

  /// The calls return the event's handle.
  virtual void* start_all_reduce(uint64_t number, uint64_t elements) = 0;
  virtual void* start_proxy_op(void* collective, int channel, int peer, bool is_send) = 0;
  virtual void* start_step(void* proxy_op, uint64_t step) = 0;
  virtual void stop(void* event) = 0;

  /// What NCCL hands to a network plugin's init().
  static nccl_abi::ProfilerCallback network_callback();
};

/// As NCCL 2.28 on (`abi` 11 and later) with v5 of the profiler ABI, before with v4; before `abi`
/// 10, or where the library at `path` exports none, nullptr. One at a time in a process.
/// Fails: throws Failure when the profiler refuses.
std::unique_ptr<Profiler> load_profiler(const std::string& path, int abi, uint64_t comm_id,
                                        int rank, int ranks);

}  // namespace lyre::allreduce
