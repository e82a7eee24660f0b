#pragma once

#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/observe/operation.h"

/// The profiler that this library is, too (ncclProfiler_v4 and _v5): NCCL takes it from the network
/// plugin when the user names no other. It asks for nothing but the plugin's own events, and keeps
/// nothing but what is needed to answer them.
namespace lyre::nccl_adapter {

/// What init() of v10 and later brings. Null, as from an older NCCL in the same process, changes
/// nothing. Thread: any.
void set_profiler_callback(nccl_abi::ProfilerCallback callback);

/// What a message with this phandle is part of, where this library is NCCL's profiler; nothing
/// known otherwise. Thread: any.
Operation operation_of(void* phandle);

}  // namespace lyre::nccl_adapter
