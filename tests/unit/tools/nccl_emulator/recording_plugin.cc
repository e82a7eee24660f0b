#include "tests/unit/tools/nccl_emulator/recording_plugin.h"

#include "nccl_adapter/abi/net.h"
#include "nccl_adapter/abi/profiler.h"

namespace lyre::nccl_emulator {
namespace {

using namespace nccl_abi;

RecordedCalls g_calls;
ProfilerCallback g_callback = nullptr;
uintptr_t g_events = 0;

Result record(RecordedCall call) {
  g_calls.push_back(std::move(call));
  return Result::kSuccess;
}

void answer(uintptr_t value, void** out) { *out = reinterpret_cast<void*>(value); }

Result record_init(Logger logger, ProfilerCallback profiler, bool has_context, uint64_t comm_id) {
  g_callback = profiler;
  logger(LogLevel::kInfo, kLogInit, __FILE__, __LINE__, "NET/Recording : %s", "init");
  return record({.function = "init",
                 .comm_id = comm_id,
                 .has_context = has_context,
                 .has_profiler = profiler != nullptr});
}

// As Lyre's plugin: a message with a phandle is an event of the profiler.
void tell_profiler(void* phandle) {
  if (g_callback == nullptr || phandle == nullptr) return;
  void* event = nullptr;
  g_callback(&event, static_cast<int>(ProfilerEvent::kStart), phandle, 1, nullptr);
  g_callback(&event, static_cast<int>(ProfilerEvent::kStop), phandle, 1, nullptr);
}

struct Plugin {
  static constexpr const char* kName = "Recording";

  static Result init(Logger logger) { return record_init(logger, nullptr, false, 0); }
  static Result init(Logger logger, ProfilerCallback profiler) {
    return record_init(logger, profiler, false, 0);
  }
  static Result init(void** context, uint64_t comm_id, CommConfig*, Logger logger,
                     ProfilerCallback profiler) {
    *context = &recording_context;
    return record_init(logger, profiler, true, comm_id);
  }
  static Result devices(int* count) {
    *count = 2;
    return Result::kSuccess;
  }
  template <typename Properties>
  static Result get_properties(int dev, Properties* properties) {
    if (dev != 0) return Result::kInvalidArgument;
    *properties = Properties{};
    properties->name = "rec0";
    properties->pci_path = "/sys/somewhere";
    properties->ptr_support = kPtrHost;
    properties->speed_mbps = 25'000;
    properties->latency_us = 3;
    properties->comms_max = 5;
    properties->recvs_max = 1;
    if constexpr (requires { properties->vprops; }) {
      properties->vprops.ndevs = 1;
      properties->p2p_bytes_max = 4096;
    }
    return Result::kSuccess;
  }

  static Result listen(int, void* handle, void** comm) {
    answer(kRecordedComm, comm);
    return record({.function = "listen", .data = handle});
  }
  static Result listen(void* context, int, void* handle, void** comm) {
    answer(kRecordedComm, comm);
    return record(
        {.function = "listen", .data = handle, .has_context = context == &recording_context});
  }
  static Result connect(int, void* handle, void** comm, NetDeviceHandle**) {
    answer(kRecordedComm, comm);
    return record({.function = "connect", .data = handle});
  }
  static Result connect(int dev, CommConfig* config, void* handle, void** comm,
                        NetDeviceHandle** device) {
    if (config->traffic_class != kTrafficClassUndefined) return Result::kInvalidArgument;
    return connect(dev, handle, comm, device);
  }
  static Result connect(void* context, int, void* handle, void** comm, NetDeviceHandle**) {
    answer(kRecordedComm, comm);
    return record(
        {.function = "connect", .data = handle, .has_context = context == &recording_context});
  }
  static Result accept(void* listen_comm, void** comm, NetDeviceHandle**) {
    answer(kRecordedComm, comm);
    return record({.function = "accept", .comm = listen_comm});
  }

  static Result reg_mr(void* comm, void* data, size_t bytes, int type, void** mhandle) {
    answer(kRecordedMhandle, mhandle);
    return record({.function = "reg_mr", .comm = comm, .data = data, .bytes = bytes, .tag = type});
  }
  static Result dereg_mr(void* comm, void* mhandle) {
    return record({.function = "dereg_mr", .comm = comm, .mhandle = mhandle});
  }

  template <typename Size>
  static Result isend(void* comm, void* data, Size bytes, int tag, void* mhandle, void** request) {
    return isend(comm, data, static_cast<size_t>(bytes), tag, mhandle, nullptr, request);
  }
  static Result isend(void* comm, void* data, size_t bytes, int tag, void* mhandle, void* phandle,
                      void** request) {
    answer(kRecordedRequest, request);
    tell_profiler(phandle);
    return record({"isend", comm, data, bytes, tag, mhandle, phandle});
  }
  template <typename Size>
  static Result irecv(void* comm, int n, void** data, Size* sizes, int* tags, void** mhandles,
                      void** request) {
    if (n != 1) return Result::kInvalidArgument;
    void* on_entry = *request;
    answer(kRecordedRequest, request);
    return record({"irecv", comm, data[0], static_cast<size_t>(sizes[0]), tags[0], mhandles[0],
                   nullptr, on_entry});
  }
  static Result irecv(void* comm, int n, void** data, size_t* sizes, int* tags, void** mhandles,
                      void** phandles, void** request) {
    if (n != 1) return Result::kInvalidArgument;
    void* on_entry = *request;
    answer(kRecordedRequest, request);
    return record({"irecv", comm, data[0], sizes[0], tags[0], mhandles[0], phandles[0], on_entry});
  }
  static Result iflush(void* comm, int, void** data, int*, void**, void** request) {
    *request = nullptr;
    return record({.function = "iflush", .comm = comm, .data = data[0]});
  }
  static Result test(void*, int* done, int* sizes) {
    *done = 1;
    if (sizes != nullptr) *sizes = kRecordedBytes;
    return Result::kSuccess;
  }
  static Result close_comm(void* comm) { return record({.function = "close", .comm = comm}); }
  static Result close_listen(void* comm) {
    return record({.function = "close_listen", .comm = comm});
  }
  static Result finalize(void* context) {
    return record({.function = "finalize", .has_context = context == &recording_context});
  }
  static Result set_net_attr(void* context, NetAttr* attr) {
    if (attr->send.concurrent_peers_max != -1) return Result::kInvalidArgument;
    return record({.function = "set_net_attr", .has_context = context == &recording_context});
  }
};

// ---- Profiler ----

Result start_profiler(void** context, int32_t* mask, const char* version) {
  *context = &recording_context;
  *mask = kProfileNetPlugin;
  return record({.function = version});
}

template <typename Event>
Result start_event(void*, void** event, Event* descr) {
  answer(++g_events, event);
  return record({.function = "event",
                 .data = *event,
                 .bytes = static_cast<size_t>(descr->kind),
                 .tag = descr->rank,
                 .phandle = descr->parent});
}
Result stop_event(void* event) { return record({.function = "stop", .data = event}); }
Result finalize_profiler(void*) { return record({.function = "finalize_profiler"}); }

template <typename Event>
constexpr ProfilerCalls<Event> kCalls{start_event<Event>, stop_event, nullptr, finalize_profiler};

Result init_v4(void** context, int32_t* mask, const char*, uint64_t, int, int, int, Logger) {
  return start_profiler(context, mask, "profiler_v4");
}
Result init_v5(void** context, uint64_t, int32_t* mask, const char*, int, int, int, Logger) {
  return start_profiler(context, mask, "profiler_v5");
}

}  // namespace
}  // namespace lyre::nccl_emulator

LYRE_EXPORT_NET_TABLE(8, lyre::nccl_emulator::Plugin);
LYRE_EXPORT_NET_TABLE(9, lyre::nccl_emulator::Plugin);
LYRE_EXPORT_NET_TABLE(10, lyre::nccl_emulator::Plugin);
LYRE_EXPORT_NET_TABLE(11, lyre::nccl_emulator::Plugin);
LYRE_EXPORT_NET_TABLE(12, lyre::nccl_emulator::Plugin);

extern "C" {
#define LYRE_EXPORT __attribute__((visibility("default")))
LYRE_EXPORT lyre::nccl_emulator::RecordedCalls* lyre_recorded_calls() {
  return &lyre::nccl_emulator::g_calls;
}
extern LYRE_EXPORT const lyre::nccl_abi::ProfilerV4 ncclProfiler_v4;
const lyre::nccl_abi::ProfilerV4 ncclProfiler_v4 = {
    "Recording", lyre::nccl_emulator::init_v4,
    lyre::nccl_emulator::kCalls<lyre::nccl_abi::ProfilerEventV4>};
extern LYRE_EXPORT const lyre::nccl_abi::ProfilerV5 ncclProfiler_v5;
const lyre::nccl_abi::ProfilerV5 ncclProfiler_v5 = {
    "Recording", lyre::nccl_emulator::init_v5,
    lyre::nccl_emulator::kCalls<lyre::nccl_abi::ProfilerEventV5>};
}
