#include "tools/nccl_emulator/progress_thread.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

namespace lyre::nccl_emulator {
namespace {

using Result = nccl_abi::Result;

// A plugin that is never ready for a message.
class BusyPlugin : public NetPlugin {
 public:
  int abi() const override { return 12; }
  const char* name() const override { return "Busy"; }
  const std::string& library_name() const override { return library_name_; }
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

 private:
  const std::string library_name_ = "busy";
};

// A plugin that has each message at once, and completes sends when it has been asked for a second
// receive. A request is the size of its message.
class PluginOfLateSends final : public BusyPlugin {
 public:
  Result isend(void*, const Message& message, void** request) override {
    *request = sends_.data() + sends_posted_;
    sends_.at(sends_posted_++) = static_cast<int>(message.bytes);
    return Result::kSuccess;
  }
  Result irecv(void*, const Message& message, void** request) override {
    *request = receives_.data() + receives_posted_;
    receives_.at(receives_posted_++) = static_cast<int>(message.bytes);
    return Result::kSuccess;
  }
  Result test(void* request, int* done, int* sizes) override {
    const auto* bytes = static_cast<const int*>(request);
    const bool is_send = bytes >= sends_.data() && bytes < sends_.data() + sends_.size();
    *done = !is_send || receives_posted_ > 1 ? 1 : 0;
    *sizes = is_send ? *bytes : static_cast<int>(sizeof(float));
    return Result::kSuccess;
  }

 private:
  std::array<int, 4> sends_{};
  std::array<int, 4> receives_{};
  size_t sends_posted_ = 0;
  size_t receives_posted_ = 0;
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

// NCCL's kernel waits for what it receives, and nobody for the last sends before the next kernel.
TEST_P(Progress, AnOperationIsOverBeforeItsLastSend) {
  constexpr unsigned kBoundS = 20;
  PluginOfLateSends plugin;
  Channel channel;
  channel.send.staging.create(plugin, nullptr);
  channel.recv.staging.create(plugin, nullptr);
  Channel* const channels[] = {&channel};
  std::vector<float> data(1);
  const std::vector<Slice> ring{{RingOp::kSend, 0, 1}, {RingOp::kRecv, 0, 1}};
  std::array<Operation, 2> operations{Operation{.data = data, .ring = {ring}},
                                      Operation{.data = data, .ring = {ring}}};
  ::alarm(kBoundS);
  ProgressThread progress(plugin, nullptr, channels,
                          {.slice_steps = 2, .device_thread = GetParam(), .neighbours = {}});
  progress.submit(operations);
  while (!progress.wait(std::chrono::milliseconds(10))) continue;
  ::alarm(0);
  EXPECT_EQ(channel.send.proxy_steps.value.load(), 2u);
  EXPECT_EQ(channel.recv.device_steps.value.load(), 2u);
}

}  // namespace
}  // namespace lyre::nccl_emulator
