#include "tools/nccl_emulator/profiler.h"

#include <gtest/gtest.h>

#include "nccl_adapter/abi/profiler.h"
#include "tests/unit/tools/nccl_emulator/recording.h"
#include "tools/nccl_emulator/net_plugin.h"

namespace lyre::nccl_emulator {
namespace {

using nccl_abi::Result;

constexpr int kRank = 3;

class ProfilerCalls : public ::testing::TestWithParam<int> {
 protected:
  ProfilerCalls() : plugin_(load_net_plugin(recording_plugin(), GetParam())) {
    recorded_calls().clear();
    EXPECT_EQ(plugin_->init(1), Result::kSuccess);
  }
  ~ProfilerCalls() override { plugin_->unload(); }
  std::unique_ptr<NetPlugin> plugin_;
};
INSTANTIATE_TEST_SUITE_P(Abi, ProfilerCalls, ::testing::Values(10, 11, 12),
                         [](const auto& instance) { return "v" + std::to_string(instance.param); });

TEST_P(ProfilerCalls, EachEventHasTheOneAboveItAsParent) {
  std::unique_ptr<Profiler> profiler = load_profiler(recording_plugin(), GetParam(), 1, kRank, 4);
  ASSERT_NE(profiler, nullptr);
  EXPECT_EQ(recorded_calls().back().function, GetParam() >= 11 ? "profiler_v5" : "profiler_v4");
  void* collective = profiler->start_collective(0, "AllReduce", 100);
  void* proxy_op = profiler->start_proxy_op(collective, 1, 2, true);
  StepEvent step{profiler->start_step(proxy_op, 0)};
  char data = 0;
  void* request = nullptr;
  ASSERT_EQ(plugin_->isend(nullptr, {.data = &data, .bytes = 1, .phandle = &step}, &request),
            Result::kSuccess);
  profiler->stop(step.event);

  std::vector<RecordedCall> events;
  std::vector<void*> stopped;
  for (const RecordedCall& call : recorded_calls()) {
    if (call.function == "event") events.push_back(call);
    if (call.function == "stop") stopped.push_back(call.data);
  }
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].bytes, nccl_abi::kProfileCollective);
  EXPECT_EQ(events[1].bytes, nccl_abi::kProfileProxyOp);
  EXPECT_EQ(events[2].bytes, nccl_abi::kProfileProxyStep);
  EXPECT_EQ(events[3].bytes, nccl_abi::kProfileNetPlugin);
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].tag, kRank);
    EXPECT_EQ(events[i].phandle, i > 0 ? events[i - 1].data : nullptr);
  }
  EXPECT_EQ(stopped, (std::vector<void*>{events[3].data, events[2].data}));
  profiler.reset();
  EXPECT_EQ(recorded_calls().back().function, "finalize_profiler");
}

TEST_P(ProfilerCalls, WithoutAProfilerTheCallbackDoesNothing) {
  StepEvent step;
  char data = 0;
  void* request = nullptr;
  ASSERT_EQ(plugin_->isend(nullptr, {.data = &data, .bytes = 1, .phandle = &step}, &request),
            Result::kSuccess);
  for (const RecordedCall& call : recorded_calls()) EXPECT_NE(call.function, "event");
}

TEST(LoadProfiler, IsNullWhereThereIsNone) {
  EXPECT_EQ(load_profiler(recording_plugin(), 9, 1, 0, 2), nullptr);
  EXPECT_EQ(load_profiler(kernel_plugin(), 12, 1, 0, 2), nullptr);
  EXPECT_EQ(load_profiler("/nonexistent/libx.so", 12, 1, 0, 2), nullptr);
}

}  // namespace
}  // namespace lyre::nccl_emulator
