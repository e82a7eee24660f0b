#include "nccl_adapter/comm/receivers.h"

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nccl_adapter/comm/send_comm.h"
#include "nccl_adapter/protocol/frame.h"
#include "nccl_adapter/protocol/queue_pair_terms.h"
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

/// Bytes of a frame about queue pairs; the payload of an offer or accept are terms.
std::vector<uint8_t> queue_pair_frame(FrameType type, const QueuePairTerms& terms) {
  std::vector<uint8_t> bytes(kFrameHeaderBytes + kQueuePairTermsBytes);
  encode({.type = type, .bytes = kQueuePairTermsBytes, .message = 3, .offset = 7},
         std::span(bytes).first<kFrameHeaderBytes>());
  encode(terms, std::span(bytes).last<kQueuePairTermsBytes>());
  return bytes;
}

const QueuePairTerms kTerms{
    .number = 5, .gid = Address{0xfd, 1}, .mtu_bytes = 1024, .slots = 16, .slot_bytes = 65536};

class QueuePairOffers : public ReceiversTest {
 protected:
  /// The only comm, whose peer speaks versions up to that one.
  Comm& join(uint16_t version_max) {
    receivers_.listen(kHandle);
    Hello first = hello();
    first.version_max = version_max;
    EXPECT_EQ(offer(first).code, AnswerCode::kWelcome);
    return *comms_.front();
  }
  /// What the comm has sent behind its welcome and its first grant, after the peer sent `bytes`.
  std::vector<uint8_t> answer_to(std::span<const uint8_t> bytes) {
    nears_[0].send_small(bytes);
    std::vector<uint8_t> heard;
    until(
        [&] {
          std::span<const uint8_t> more;
          while (nears_[0].peek(&more) == Io::kOk) {
            heard.insert(heard.end(), more.begin(), more.end());
            nears_[0].consume(more.size());
          }
          nears_[0].release();
          return false;
        },
        50 * kMs);
    const size_t before = 1 + kFrameHeaderBytes;
    EXPECT_GE(heard.size(), before);
    heard.erase(heard.begin(), heard.begin() + static_cast<ptrdiff_t>(before));
    return heard;
  }
};

TEST_F(QueuePairOffers, AreDeclinedWithTheirLaneIncarnationAndAReason) {
  Comm& comm = join(3);
  const std::vector<uint8_t> heard = answer_to(queue_pair_frame(FrameType::kOffer, kTerms));
  ASSERT_GT(heard.size(), kFrameHeaderBytes);
  FrameHeader header;
  ASSERT_TRUE(decode(std::span(heard).first<kFrameHeaderBytes>(), &header));
  EXPECT_EQ(header.type, FrameType::kDecline);
  EXPECT_EQ(header.message, 3u);
  EXPECT_EQ(header.offset, 7u);
  ASSERT_EQ(heard.size(), kFrameHeaderBytes + header.bytes);
  EXPECT_EQ(std::string(heard.begin() + kFrameHeaderBytes, heard.end()),
            "this process uses no RDMA device");
  EXPECT_FALSE(comm.has_failed());
}

TEST_F(QueuePairOffers, ThatAreGivenUpLeaveTheCommAsItIs) {
  Comm& comm = join(3);
  EXPECT_TRUE(answer_to(queue_pair_frame(FrameType::kDecline, kTerms)).empty());
  EXPECT_FALSE(comm.has_failed());
}

TEST_F(QueuePairOffers, AreNoFramesOfVersionTwo) {
  Comm& comm = join(2);
  answer_to(queue_pair_frame(FrameType::kOffer, kTerms));
  EXPECT_TRUE(comm.has_failed());
}

TEST_F(QueuePairOffers, WithTermsThatCannotBeEndTheComm) {
  Comm& comm = join(3);
  QueuePairTerms wrong = kTerms;
  wrong.slots = 0;
  answer_to(queue_pair_frame(FrameType::kOffer, wrong));
  EXPECT_TRUE(comm.has_failed());
}

TEST_F(QueuePairOffers, CreditOverAStreamEndsTheComm) {
  Comm& comm = join(3);
  std::vector<uint8_t> credit(kFrameHeaderBytes);
  encode({.type = FrameType::kCredit}, std::span(credit).first<kFrameHeaderBytes>());
  answer_to(credit);
  EXPECT_TRUE(comm.has_failed());
}

TEST_F(QueuePairOffers, AreNotAcceptedByTheirSender) {
  Comm& comm = join(3);
  answer_to(queue_pair_frame(FrameType::kAccept, kTerms));
  EXPECT_TRUE(comm.has_failed());
}

TEST_F(ReceiversTest, ARequestToDialAgainNeedsACommThatSendsFromHere) {
  Hello request = hello(kRedialRequest);
  const Decision decision = offer(request);
  EXPECT_EQ(decision.code, AnswerCode::kUnknown);
  EXPECT_TRUE(decision.is_foreign) << "a stranger may say it without end";
}

}  // namespace
}  // namespace lyre::nccl_adapter
