#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "nccl_adapter/abi/common.h"

/// NCCL's profiler ABI, as far as a network plugin needs it to learn what its messages belong to:
/// our own declarations of ncclProfiler_v4 (NCCL 2.27) and _v5 (2.28 and later).
namespace lyre::nccl_abi {

/// Kinds of events, and bits of the mask with which a profiler asks for them. NCCL starts the
/// events above one that was asked for, too.
inline constexpr uint64_t kProfileCollective = 1 << 1;
inline constexpr uint64_t kProfileP2p = 1 << 2;
inline constexpr uint64_t kProfileProxyOp = 1 << 3;
inline constexpr uint64_t kProfileProxyStep = 1 << 4;
inline constexpr uint64_t kProfileNetPlugin = 1 << 7;

/// A collective that was launched. Texts live as long as NCCL.
struct CollectiveEvent {
  uint64_t number;       ///< counted for each function by itself
  const char* function;  ///< "AllReduce"
  const void* send_buffer;
  void* receive_buffer;
  size_t count;
  int32_t root;
  const char* datatype;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};

/// One side of a send or receive.
struct P2pEvent {
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int32_t peer;
};

/// What one channel sends to, or receives from, one rank for an operation.
struct ProxyOpEvent {
  pid_t pid;  ///< whose the parent's handle is
  uint8_t channel;
  int32_t peer;  ///< rank
  int32_t steps;
  int32_t chunk_bytes;
  int32_t is_send;
};

struct ProxyStepEvent {
  int32_t step;
};

/// What a network plugin says through the ProfilerCallback.
struct NetPluginEvent {
  int64_t plugin_id;
  void* data;
};

/// ncclProfilerEventDescr: v4 has a byte for the kind, v5 eight. What follows in NCCL's union is
/// not declared: a profiler reads the member of the kind, and no further.
template <typename Kind>
struct ProfilerEventDescr {
  Kind kind;
  void* parent;
  int32_t rank;
  union {
    CollectiveEvent collective;
    P2pEvent p2p;
    ProxyOpEvent proxy_op;
    ProxyStepEvent proxy_step;
    NetPluginEvent net_plugin;
  };
};
using ProfilerEventV4 = ProfilerEventDescr<uint8_t>;
using ProfilerEventV5 = ProfilerEventDescr<uint64_t>;
static_assert(offsetof(ProfilerEventV4, parent) == 8 && offsetof(ProfilerEventV5, parent) == 8);
static_assert(offsetof(ProfilerEventV4, rank) == 16 && offsetof(ProfilerEventV5, rank) == 16);
static_assert(offsetof(ProfilerEventV4, proxy_op) == 24);
static_assert(offsetof(CollectiveEvent, protocol) == 72);
static_assert(offsetof(ProxyOpEvent, peer) == 8);

/// The calls from start_event on, which differ only by the event's form. A profiler that is not
/// interested sets *event to null, and NCCL does not mention that event again.
template <typename Event>
struct ProfilerCalls {
  Result (*start_event)(void* context, void** event, Event* descr);
  Result (*stop_event)(void* event);
  Result (*record_state)(void* event, int32_t state, void* args);
  Result (*finalize)(void* context);
};

/// ncclProfiler_v4_t, exported as ncclProfiler_v4.
struct ProfilerV4 {
  using Event = ProfilerEventV4;
  const char* name;
  Result (*init)(void** context, int32_t* mask, const char* comm_name, uint64_t comm_id, int nodes,
                 int ranks, int rank, Logger logger);
  ProfilerCalls<Event> calls;
};

/// ncclProfiler_v5_t, exported as ncclProfiler_v5.
struct ProfilerV5 {
  using Event = ProfilerEventV5;
  const char* name;
  Result (*init)(void** context, uint64_t comm_id, int32_t* mask, const char* comm_name, int nodes,
                 int ranks, int rank, Logger logger);
  ProfilerCalls<Event> calls;
};
static_assert(sizeof(ProfilerV4) == 48 && sizeof(ProfilerV5) == 48);

}  // namespace lyre::nccl_abi
