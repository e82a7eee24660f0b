#include "nccl_adapter/plugin/profiler.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

#include "nccl_adapter/abi/profiler.h"

extern "C" {
extern const lyre::nccl_abi::ProfilerV4 ncclProfiler_v4;
}

namespace lyre::nccl_adapter {
namespace {

using nccl_abi::Result;

int g_asked = 0;

Result count_question(void**, int, void*, int64_t, void*) {
  ++g_asked;
  return Result::kSuccess;
}

// As of v8 and v9, whose init brings none: another NCCL of the process brought it.
TEST(ProfilerCallbackOfAProcess, IsKeptByALaterInitWithoutOne) {
  ::unsetenv("LYRE_TELEMETRY_DIR");
  void* context = nullptr;
  int32_t mask = 0;
  ASSERT_EQ(ncclProfiler_v4.init(&context, &mask, nullptr, 0, 1, 1, 0, nullptr), Result::kSuccess);
  ASSERT_NE(context, nullptr);
  set_profiler_callback(count_question);
  set_profiler_callback(nullptr);
  int event = 0;
  operation_of(&event);
  EXPECT_EQ(g_asked, 1);
  EXPECT_EQ(ncclProfiler_v4.calls.finalize(context), Result::kSuccess);
}

}  // namespace
}  // namespace lyre::nccl_adapter
