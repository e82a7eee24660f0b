#include "tools/nccl_emulator/device.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/tools/nccl_emulator/recording.h"
#include "tools/nccl_emulator/failure.h"

namespace lyre::nccl_emulator {
namespace {

/// One channel whose proxy is this test.
class DeviceOfOneChannel : public ::testing::Test {
 protected:
  DeviceOfOneChannel() : plugin_(load_net_plugin(recording_plugin())) {
    channel_.send.staging.create(*plugin_, nullptr);
    channel_.recv.staging.create(*plugin_, nullptr);
  }
  ~DeviceOfOneChannel() override { plugin_->unload(); }

  void start(RingOp op, Protocol protocol, std::vector<float>* data) {
    operation_ = {.data = *data,
                  .protocol = protocol,
                  .ring = {{{op, 0, static_cast<uint32_t>(data->size())}}},
                  .flag_base = 40};
    device_.start(&operation_, 2);
  }
  /// A message is in the first slot.
  void receive(Protocol protocol, const void* bytes, size_t count) {
    std::memcpy(channel_.recv.staging.slots(protocol), bytes, count);
    channel_.recv.slot_bytes[0] = static_cast<uint32_t>(count);
    channel_.recv.proxy_steps.value.store(1);
  }

  std::unique_ptr<NetPlugin> plugin_;
  Channel channel_;
  Channel* channels_[1] = {&channel_};
  Device device_{channels_};
  Operation operation_;
};

TEST_F(DeviceOfOneChannel, ReducesWhatArrivedAndFillsTheSlotToSend) {
  std::vector<float> data{1, 2, 3, 4};
  start(RingOp::kRecvReduceCopySend, Protocol::kSimple, &data);
  EXPECT_EQ(device_.poll(), 0u);  // nothing has arrived
  const float arrived[] = {10, 20, 30, 40};
  receive(Protocol::kSimple, arrived, sizeof(arrived));
  EXPECT_EQ(device_.poll(), 1u);
  EXPECT_TRUE(device_.is_done());
  EXPECT_EQ(data, (std::vector<float>{11, 22, 33, 44}));
  EXPECT_EQ(std::memcmp(channel_.send.staging.slots(Protocol::kSimple), data.data(), 16), 0);
  EXPECT_EQ(channel_.send.slot_bytes[0], 16u);
  EXPECT_EQ(channel_.send.device_steps.value.load(), 1u);
  EXPECT_EQ(channel_.recv.device_steps.value.load(), 1u);
}

TEST_F(DeviceOfOneChannel, RefusesAMessageOfAnotherLength) {
  std::vector<float> data(4);
  start(RingOp::kRecv, Protocol::kSimple, &data);
  const float arrived[] = {10, 20, 30};
  receive(Protocol::kSimple, arrived, sizeof(arrived));
  try {
    device_.poll();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "message 0 from rank 0 has 12 bytes instead of 16");
  }
}

TEST_F(DeviceOfOneChannel, WaitsForTheFlagsOfThisStep) {
  struct Word {
    float data;
    uint32_t flag;
  };
  std::vector<float> data(2);
  start(RingOp::kRecv, Protocol::kLl, &data);
  const Word early[] = {{5, 41}, {6, 40}};  // the second is an earlier step's
  receive(Protocol::kLl, early, sizeof(early));
  EXPECT_EQ(device_.poll(), 0u);
  const Word complete[] = {{5, 41}, {6, 41}};
  receive(Protocol::kLl, complete, sizeof(complete));
  EXPECT_EQ(device_.poll(), 1u);
  EXPECT_EQ(data, (std::vector<float>{5, 6}));
}

}  // namespace
}  // namespace lyre::nccl_emulator
