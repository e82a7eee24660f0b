#include "nccl_adapter/comm/receivers.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "nccl_adapter/comm/send_comm.h"
#include "tests/unit/nccl_adapter/support/connected_hosts.h"

namespace lyre::nccl_adapter {
namespace {

constexpr Nonce kHandle{1};
constexpr Nonce kComm{2};

/// Streams that arrive at `there()`, whose receivers decide about them.
class ReceiversTest : public ConnectedHosts, private CommOwner {
 protected:
  ~ReceiversTest() override {
    comms_.clear();
    nears_.clear();
  }

  /// A stream arrives with this hello.
  Decision offer(const Hello& hello) {
    nears_.push_back(connect());
    const uint8_t welcome[] = {1};
    return receivers_.on_hello(hello, "10.0.0.1:1", &far_, welcome);
  }
  static Hello hello(uint16_t stream = 0, uint32_t incarnation = 1) {
    return {.stream_index = stream,
            .stream_count = 2,
            .incarnation = incarnation,
            .nonce = kHandle,
            .comm_id = kComm,
            .host = "host0"};
  }

  std::vector<std::unique_ptr<Comm>> comms_;
  std::vector<Stream> nears_;
  Receivers receivers_{&there(), this};

 private:
  void adopt(std::unique_ptr<Comm> comm) override { comms_.push_back(std::move(comm)); }
  SendComm* find_sender(const Nonce&) override { return nullptr; }
};

TEST_F(ReceiversTest, TheFirstStreamOfACommMakesItForTheListenCommOfItsHandle) {
  ListenComm* listener = receivers_.listen(kHandle);
  EXPECT_EQ(listener->take(), nullptr);
  EXPECT_EQ(offer(hello()).code, AnswerCode::kWelcome);
  ASSERT_EQ(comms_.size(), 1u);
  EXPECT_EQ(listener->take(), comms_.front().get());
  EXPECT_EQ(listener->take(), nullptr);
}

TEST_F(ReceiversTest, FurtherStreamsJoinTheSameCommOnceEach) {
  receivers_.listen(kHandle);
  EXPECT_EQ(offer(hello(0)).code, AnswerCode::kWelcome);
  EXPECT_EQ(offer(hello(1)).code, AnswerCode::kWelcome);
  EXPECT_EQ(offer(hello(1)).code, AnswerCode::kBadStream) << "that incarnation is there";
  EXPECT_EQ(offer(hello(1, 2)).code, AnswerCode::kWelcome) << "a successor";
  EXPECT_EQ(comms_.size(), 1u);
}

TEST_F(ReceiversTest, AHandleThatNoListenCommHasIsForeign) {
  const Decision decision = offer(hello());
  EXPECT_EQ(decision.code, AnswerCode::kUnknown);
  EXPECT_TRUE(decision.is_foreign);
  EXPECT_TRUE(comms_.empty());
}

TEST_F(ReceiversTest, StreamNumbersThatCannotBeAreRefused) {
  receivers_.listen(kHandle);
  Hello none = hello();
  none.stream_count = 0;
  Hello many = hello();
  many.stream_count = kStreamsMax + 1;
  for (const Hello& wrong : {none, many, hello(2)}) {
    EXPECT_EQ(offer(wrong).code, AnswerCode::kBadStream);
  }
  EXPECT_TRUE(comms_.empty());
}

TEST_F(ReceiversTest, AClosedListenCommTakesNoComm) {
  receivers_.close(receivers_.listen(kHandle));
  EXPECT_EQ(receivers_.listening(), 0u);
  EXPECT_EQ(offer(hello()).code, AnswerCode::kUnknown);
}

TEST_F(ReceiversTest, APeerWhoseCommWasGivenUpIsToldAndIsNotForeign) {
  receivers_.listen(kHandle);
  ASSERT_EQ(offer(hello()).code, AnswerCode::kWelcome);
  receivers_.on_close(comms_.front().get());
  comms_.clear();
  const Decision decision = offer(hello(0, 2));
  EXPECT_EQ(decision.code, AnswerCode::kUnknown);
  EXPECT_EQ(decision.why, "it gave that comm up");
  EXPECT_FALSE(decision.is_foreign);
}

TEST_F(ReceiversTest, ARequestToDialAgainNeedsACommThatSendsFromHere) {
  Hello request = hello(kRedialRequest);
  const Decision decision = offer(request);
  EXPECT_EQ(decision.code, AnswerCode::kUnknown);
  EXPECT_FALSE(decision.is_foreign);
}

}  // namespace
}  // namespace lyre::nccl_adapter
