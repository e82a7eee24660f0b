#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// A net plugin and profiler without a network: it keeps the arguments of each call. The test finds
/// them by the symbol lyre_recorded_calls.
namespace lyre::nccl_emulator {

struct RecordedCall {
  std::string function;
  void* comm = nullptr;
  void* data = nullptr;
  size_t bytes = 0;
  int tag = 0;
  void* mhandle = nullptr;
  void* phandle = nullptr;  ///< null where the version passes none
  void* request_on_entry = nullptr;
  uint64_t comm_id = 0;
  bool has_context = false;
  bool has_profiler = false;  ///< a callback was passed
};

using RecordedCalls = std::vector<RecordedCall>;
using GetRecordedCalls = RecordedCalls* (*)();

/// What the plugin answers: the context of v11 and later, and each comm, mhandle and request.
inline char recording_context = 0;
inline constexpr uintptr_t kRecordedComm = 0x100;
inline constexpr uintptr_t kRecordedMhandle = 0x200;
inline constexpr uintptr_t kRecordedRequest = 0x300;
inline constexpr int kRecordedBytes = 17;  ///< of each finished request

}  // namespace lyre::nccl_emulator
