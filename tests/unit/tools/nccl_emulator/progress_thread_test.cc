#include "tools/nccl_emulator/progress_thread.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace lyre::nccl_emulator {
namespace {

using Result = nccl_abi::Result;

// A plugin that is never ready for a message.
class BusyPlugin final : public NetPlugin {
 public:
  int abi() const override { return 12; }
  const char* name() const override { return "Busy"; }
  Result init(uint64_t) override { return Result::kSuccess; }
  Result devices(int*) override { return Result::kSuccess; }
  Result get_properties(int, NetProperties*) override { return Result::kSuccess; }
  Result listen(int, void*, void**) override { return Result::kSuccess; }
  Result connect(int, void*, void**) override { return Result::kSuccess; }
  Result accept(void*, void**) override { return Result::kSuccess; }
  Result reg_mr(void*, void*, size_t, int, void**) override { return Result::kSuccess; }
  Result dereg_mr(void*, void*) override { return Result::kSuccess; }
  Result isend(void*, const Message&, void**) override { return Result::kSuccess; }
  Result irecv(void*, const Message&, void** request) override {
    *request = nullptr;
    is_asked.store(true);
    return Result::kSuccess;
  }
  Result irecv_group(void*, std::span<const Message>, void**) override { return Result::kSuccess; }
  Result iflush(void*, void*, void**) override { return Result::kSuccess; }
  Result test(void*, int*, int*) override { return Result::kSuccess; }
  Result close_send(void*) override { return Result::kSuccess; }
  Result close_recv(void*) override { return Result::kSuccess; }
  Result close_listen(void*) override { return Result::kSuccess; }
  Result finalize() override { return Result::kSuccess; }
  void unload() override {}

  std::atomic<bool> is_asked{false};
};

class Progress : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Device, Progress, ::testing::Bool(), [](const auto& instance) {
  return instance.param ? "OnItsOwnThread" : "OnTheSameThread";
});

TEST_P(Progress, EndsInTheMiddleOfAnOperation) {
  constexpr unsigned kBoundS = 20;
  BusyPlugin plugin;
  Channel channel;
  channel.recv.staging.create(plugin, nullptr);
  Channel* const channels[] = {&channel};
  std::vector<float> data(1);
  Operation operation{.data = data, .ring = {{Slice{RingOp::kRecv, 0, 1}}}};
  ::alarm(kBoundS);  // the destructor joins the thread, which has no bound
  {
    ProgressThread progress(plugin, nullptr, channels,
                            {.slice_steps = 2, .device_thread = GetParam(), .neighbours = {}});
    progress.submit({&operation, 1});
    while (!plugin.is_asked.load()) std::this_thread::yield();
  }
  ::alarm(0);
}

}  // namespace
}  // namespace lyre::nccl_emulator
