#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl_adapter/abi/common.h"

/// NCCL's calls with v12's meaning and without v12's types: what the tables of all versions call.
/// Each takes the lock of the instance concerned and lets no exception out.
/// Thread: any.
namespace lyre::nccl_adapter {

using nccl_abi::Result;

inline constexpr const char* kPluginName = "Lyre";

/// v11 on: a context of its own for each communicator. Fails where this process has used no daemon
/// yet and finds none; afterwards the context may find it later, with its first listen() or
/// connect(), which block then as init_process() does.
Result init_context(void** context, uint64_t communicator, nccl_abi::Logger logger,
                    nccl_abi::ProfilerCallback profiler);
/// Ends either kind of context: at once, or with the last close of what NCCL still uses of it.
Result finalize(void* context);
/// v8 to v10: one context for the process, kept until it ends or its daemon is given up.
Result init_process(nccl_abi::Logger logger, nccl_abi::ProfilerCallback profiler);
/// That context; null before init_process().
void* process_context();
/// The same for a listen(). NCCL may never call init again, so a context whose daemon was given up
/// is replaced here. Blocks as init_process() then, and all threads that call it at the same time
/// wait for the same attempt.
void* process_context_for_new_comm();
/// The same for a connect() with that handle; a call after the first one does not replace it.
void* process_context_to_connect(void* handle);

Result devices(int* ndev);

Result listen(void* context, int dev, void* handle, void** listen_comm);
Result connect(void* context, int dev, void* handle, void** send_comm);
Result accept(void* listen_comm, void** recv_comm, nccl_abi::NetDeviceHandle** device_comm);
Result reg_mr(void* comm, void* data, size_t bytes, int type, void** mhandle);
Result dereg_mr(void* comm, void* mhandle);
/// `phandle`, here and below: NCCL's event that the message belongs to; may be null.
Result isend(void* send_comm, void* data, size_t bytes, void* mhandle, void* phandle,
             void** request);
/// `bytes` is an upper bound.
Result irecv(void* recv_comm, int count, void* data, size_t bytes, void* mhandle, void* phandle,
             void** request);
Result iflush(void* recv_comm, int count, void** data, int* sizes, void** mhandles, void** request);
Result test(void* request, int* done, int* sizes);
Result close_comm(void* comm);
Result close_listen(void* listen_comm);
Result set_net_attr(void* context, nccl_abi::NetAttr* attr);

}  // namespace lyre::nccl_adapter
