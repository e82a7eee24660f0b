#pragma once

#include <cstddef>
#include <cstdint>

/// What every version of NCCL's network plugin ABI shares. These are our own declarations of a C
/// ABI: sizes and offsets are asserted, names follow this project's style.
namespace lyre::nccl_abi {

/// ncclResult_t.
enum class Result : int32_t {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

constexpr const char* result_name(Result result) {
  switch (result) {
    case Result::kSuccess:
      return "ncclSuccess";
    case Result::kUnhandledCudaError:
      return "ncclUnhandledCudaError";
    case Result::kSystemError:
      return "ncclSystemError";
    case Result::kInternalError:
      return "ncclInternalError";
    case Result::kInvalidArgument:
      return "ncclInvalidArgument";
    case Result::kInvalidUsage:
      return "ncclInvalidUsage";
    case Result::kRemoteError:
      return "ncclRemoteError";
    case Result::kInProgress:
      return "ncclInProgress";
  }
  return "an unknown ncclResult_t";
}

/// ncclDebugLogLevel.
enum class LogLevel : int32_t {
  kNone = 0,
  kVersion = 1,
  kWarn = 2,
  kInfo = 3,
  kAbort = 4,
  kTrace = 5,
};

/// Subsystem bits of the logger's `flags`.
inline constexpr unsigned long kLogInit = 0x1;
inline constexpr unsigned long kLogNet = 0x10;

/// ncclDebugLogger_t. Thread: NCCL's logger may be called from any thread.
using Logger = void (*)(LogLevel level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

/// Event types of the profiler callback.
enum class ProfilerEvent : int32_t { kStart = 0, kStop = 1, kUpdate = 2, kUpdateAndStop = 3 };

/// ncclProfilerCallback_t (v10+). `parent` is the phandle of isend/irecv and may be null.
using ProfilerCallback = Result (*)(void** event, int type, void* parent, int64_t plugin_id,
                                    void* data);

inline constexpr size_t kHandleBytesMax = 128;
inline constexpr int kPtrHost = 0x1;
inline constexpr int kPtrCuda = 0x2;
inline constexpr int kPtrDmaBuf = 0x4;
inline constexpr int kRequestsMax = 32;      // NCCL_NET_MAX_REQUESTS since 2.19
inline constexpr int kStepsInFlightMax = 8;  // NCCL_STEPS: what the proxy really uses
inline constexpr int kTrafficClassUndefined = -1;
inline constexpr int kNetIdUndefined = -1;
inline constexpr size_t kNetBytesMax = size_t{1} << 40;    // bound of maxP2pBytes, maxCollBytes
inline constexpr size_t kNetBytesMaxV8 = size_t{1} << 30;  // what an int-sized isend is given

/// The v9+ irecv may be entered with this value in *request: "complete early if you like".
/// The plugin must overwrite it in every case.
inline constexpr uintptr_t kOptionalRecvCompletion = 0x1;

enum class NetDeviceType : int32_t { kHost = 0, kUnpack = 1, kGinProxy = 2, kGinGdaki = 3 };

/// ncclNetDeviceHandle_v7_t and later; only used by device types other than kHost.
struct NetDeviceHandle {
  NetDeviceType type;
  int32_t version;
  void* handle;
  size_t size;
  int32_t needs_proxy_progress;
};
static_assert(sizeof(NetDeviceHandle) == 32);
static_assert(offsetof(NetDeviceHandle, handle) == 8);
static_assert(offsetof(NetDeviceHandle, size) == 16);
static_assert(offsetof(NetDeviceHandle, needs_proxy_progress) == 24);

/// ncclNetVDeviceProps: the physical devices merged in a virtual one. 4 slots up to v11, 8 in v12.
template <int kDevices>
struct VDeviceProps {
  int32_t ndevs;
  int32_t devs[kDevices];
};
using VDevicePropsV9 = VDeviceProps<4>;
using VDevicePropsV12 = VDeviceProps<8>;
static_assert(sizeof(VDevicePropsV9) == 20);
static_assert(sizeof(VDevicePropsV12) == 36);

/// ncclNetCommConfig_v10_t and later.
struct CommConfig {
  int32_t traffic_class;
};
static_assert(sizeof(CommConfig) == 4);

/// ncclNetCommAttr_v11_t; kNetIdUndefined where NCCL does not know.
struct CommAttr {
  int32_t concurrent_peers_max;
  int32_t concurrent_peers_min;
  int32_t flows_per_peer_max;
  int32_t flows_per_peer_min;
};
static_assert(sizeof(CommAttr) == 16);

/// ncclNetAttr_v11_t: what setNetAttr tells about the next operation.
struct NetAttr {
  CommAttr send;
  CommAttr recv;
  uint32_t op;
  uint32_t algo;
  uint32_t proto;
};
static_assert(sizeof(NetAttr) == 44);
static_assert(offsetof(NetAttr, recv) == 16);
static_assert(offsetof(NetAttr, op) == 32);

}  // namespace lyre::nccl_abi
