#include "nccl_adapter/plugin/profiler.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "nccl_adapter/abi/profiler.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/settings.h"

namespace lyre::nccl_adapter {
namespace {

using namespace lyre::nccl_abi;

// NCCL's own plugins have 1 and 2 in the upper half; the lower half is a version.
constexpr int64_t kPluginId = int64_t{0x4c59} << 16 | 1;

std::atomic<ProfilerCallback> g_callback{nullptr};
std::atomic<int> g_users{0};  // communicators that have this library as their profiler
// The process, as init() found it. getpid() is a system call, which every operation would make.
std::atomic<pid_t> g_process{0};

OperationTable& operations() {
  // Never destroyed: NCCL's threads may still call while the process runs its exit handlers.
  static OperationTable& the_operations = *new OperationTable;
  return the_operations;
}

uint64_t ticket_of(void* event) { return reinterpret_cast<uintptr_t>(event); }

void* handle_of(uint64_t ticket) { return reinterpret_cast<void*>(ticket); }

void* start_operation(const char* function, int64_t number, int rank) {
  Operation operation{.number = number, .rank = rank};
  if (function != nullptr) {
    const size_t bytes = ::strnlen(function, operation.function.size() - 1);
    std::copy_n(function, bytes, operation.function.begin());
  }
  return handle_of(operations().remember(operation));
}

// Another process's handle says nothing here: its proxy operations have ranks, but no name.
void* start_proxy_op(const ProxyOpEvent& event, void* parent, int rank) {
  Operation operation;
  // Relaxed: a lone number; NCCL orders init() before the events.
  if (event.pid == g_process.load(std::memory_order_relaxed)) {
    operation = operations().find(ticket_of(parent)).value_or(operation);
  }
  operation.rank = rank;
  operation.peer_rank = event.peer;
  operation.channel = event.channel;
  return handle_of(operations().remember(operation));
}

template <typename Event>
Result start_event(void*, void** event, Event* descr) {
  *event = nullptr;
  switch (uint64_t{descr->kind}) {
    case kProfileCollective:
      *event = start_operation(descr->collective.function,
                               static_cast<int64_t>(descr->collective.number), descr->rank);
      break;
    case kProfileP2p:
      *event = start_operation(descr->p2p.function, -1, descr->rank);
      break;
    case kProfileProxyOp:
      *event = start_proxy_op(descr->proxy_op, descr->parent, descr->rank);
      break;
    case kProfileProxyStep:
      *event = descr->parent;
      break;
    case kProfileNetPlugin:
      // Asked by operation_of() below: data is its result.
      if (descr->net_plugin.plugin_id != kPluginId) break;
      *static_cast<Operation*>(descr->net_plugin.data) =
          operations().find(ticket_of(descr->parent)).value_or(Operation{});
      break;
    default:
      break;
  }
  return Result::kSuccess;
}

Result stop_event(void*) { return Result::kSuccess; }
Result record_state(void*, int32_t, void*) { return Result::kSuccess; }

Result init(void** context, int32_t* mask, Logger logger) {
  set_logger(logger);
  g_process.store(::getpid(), std::memory_order_relaxed);
  // The mask is one for all of NCCL's communicators: those that work already read it meanwhile.
  Settings settings;
  if (!read_settings(&settings) || settings.telemetry_directory == nccl_abi::kNoTelemetry) {
    *context = nullptr;
    *mask = 0;
    return Result::kSuccess;
  }
  *context = &g_users;  // NCCL finalizes only a profiler with a context
  *mask = static_cast<int32_t>(kProfileNetPlugin);
  g_users.fetch_add(1, std::memory_order_relaxed);
  return Result::kSuccess;
}

Result finalize(void*) {
  g_users.fetch_sub(1, std::memory_order_relaxed);
  return Result::kSuccess;
}

template <typename Event>
constexpr ProfilerCalls<Event> make_calls() {
  return {start_event<Event>, stop_event, record_state, finalize};
}

Result init_v4(void** context, int32_t* mask, const char*, uint64_t, int, int, int, Logger logger) {
  return init(context, mask, logger);
}

Result init_v5(void** context, uint64_t, int32_t* mask, const char*, int, int, int, Logger logger) {
  return init(context, mask, logger);
}

}  // namespace

void set_profiler_callback(ProfilerCallback callback) {
  if (callback != nullptr) g_callback.store(callback, std::memory_order_relaxed);
}

Operation operation_of(void* phandle) {
  Operation operation;
  const ProfilerCallback callback = g_callback.load(std::memory_order_relaxed);
  // Another profiler would not know what to do with `operation`.
  if (phandle == nullptr || callback == nullptr || g_users.load(std::memory_order_relaxed) == 0) {
    return operation;
  }
  void* event = nullptr;
  callback(&event, static_cast<int>(ProfilerEvent::kStart), phandle, kPluginId, &operation);
  return operation;
}

}  // namespace lyre::nccl_adapter

extern "C" {
__attribute__((visibility("default"))) extern const lyre::nccl_abi::ProfilerV4 ncclProfiler_v4;
const lyre::nccl_abi::ProfilerV4 ncclProfiler_v4{
    "Lyre", lyre::nccl_adapter::init_v4,
    lyre::nccl_adapter::make_calls<lyre::nccl_abi::ProfilerEventV4>()};
__attribute__((visibility("default"))) extern const lyre::nccl_abi::ProfilerV5 ncclProfiler_v5;
const lyre::nccl_abi::ProfilerV5 ncclProfiler_v5{
    "Lyre", lyre::nccl_adapter::init_v5,
    lyre::nccl_adapter::make_calls<lyre::nccl_abi::ProfilerEventV5>()};
}
