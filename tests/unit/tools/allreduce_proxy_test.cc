#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tools/lyre/allreduce/proxy.h"

namespace lyre::allreduce {
namespace {

using Result = nccl_abi::Result;

// Takes no message, as a plugin whose peer says nothing.
class MuteNetwork final : public NetPlugin {
 public:
  int abi() const override { return 12; }
  const char* name() const override { return "Mute"; }
  Result init(uint64_t) override { return Result::kSuccess; }
  Result devices(int*) override { return Result::kSuccess; }
  Result get_properties(int, NetProperties*) override { return Result::kSuccess; }
  Result listen(int, void*, void**) override { return Result::kSuccess; }
  Result connect(int, void*, void**) override { return Result::kSuccess; }
  Result accept(void*, void**) override { return Result::kSuccess; }
  Result reg_mr(void*, void*, size_t, void**) override { return Result::kSuccess; }
  Result dereg_mr(void*, void*) override { return Result::kSuccess; }
  Result isend(void*, void*, size_t, int, void*, void*, void**) override {
    return Result::kSuccess;
  }
  Result irecv(void*, void*, size_t, int, void*, void*, bool, void**) override {
    is_asked.store(true);
    return Result::kSuccess;
  }
  Result test(void*, int*, int*) override { return Result::kSuccess; }
  Result close_send(void*) override { return Result::kSuccess; }
  Result close_recv(void*) override { return Result::kSuccess; }
  Result close_listen(void*) override { return Result::kSuccess; }
  Result finalize() override { return Result::kSuccess; }

  std::atomic<bool> is_asked{false};
};

class Progress : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Device, Progress, ::testing::Bool(), [](const auto& instance) {
  return instance.param ? "OnAThreadOfItsOwn" : "OnTheSameThread";
});

TEST_P(Progress, EndsInTheMiddleOfAnOperation) {
  constexpr unsigned kBoundS = 20;
  MuteNetwork network;
  Channel channel;
  channel.recv.staging.create(network, nullptr);
  Channel* const channels[] = {&channel};
  std::vector<float> data(1);
  Operation operation{.data = data, .ring = {{Slice{RingOp::kRecv, 0, 1}}}};
  ::alarm(kBoundS);  // who hangs here cannot be waited for with a bound
  {
    ProgressThread progress(network, nullptr, channels,
                            {.slice_steps = 2, .device_thread = GetParam(), .neighbours = {}});
    progress.submit({&operation, 1});
    while (!network.is_asked.load()) std::this_thread::yield();
  }
  ::alarm(0);
}

}  // namespace
}  // namespace lyre::allreduce
