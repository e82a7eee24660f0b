#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/nccl_adapter/support/comms.h"
#include "tests/unit/nccl_adapter/support/queues.h"

// Sends that are done for NCCL before they are placed.
namespace lyre::nccl_adapter {
namespace {

TEST(SendQueue, SmallMessagesAreKeptAndLetGoInOrder) {
  SendQueue queue(nullptr);
  queue.keep_small();
  std::vector<uint8_t> data = counted(kZeroCopyBytesMin, 1);
  const std::vector<uint8_t> posted = data;
  Request* small = queue.post(data.data(), 100);
  Request* empty = queue.post(nullptr, 0);
  Request* large = queue.post(data.data(), kZeroCopyBytesMin);
  Request* last = queue.post(data.data(), 100);
  EXPECT_FALSE(small->is_done()) << "no stream has it";
  std::fill_n(data.begin(), 100, uint8_t{0xff});
  std::vector<uint8_t> wire;
  drain(queue, &wire);
  EXPECT_TRUE(std::equal(posted.begin(), posted.begin() + 100, wire.begin() + kFrameHeaderBytes));
  EXPECT_TRUE(small->is_done());
  EXPECT_TRUE(empty->is_done());
  EXPECT_FALSE(large->is_done());
  EXPECT_FALSE(last->is_done()) << "it is behind a large one";
  ASSERT_TRUE(queue.on_grant(3, 3));
  EXPECT_TRUE(large->is_done());
  EXPECT_TRUE(last->is_done());
  EXPECT_EQ(queue.requests().active(), 1u);
  EXPECT_EQ(queue.take_copied_bytes(), 200u);
}

TEST(SendQueue, SoManySmallMessagesAreKept) {
  SendQueue queue(nullptr);
  queue.keep_small();
  std::vector<uint8_t> data = counted(8, 1);
  std::vector<Request*> sends;
  for (size_t i = 0; i <= kKeptSends; ++i) sends.push_back(queue.post(data.data(), 8));
  std::vector<uint8_t> wire;
  drain(queue, &wire);
  EXPECT_TRUE(sends[kKeptSends - 1]->is_done());
  EXPECT_FALSE(sends[kKeptSends]->is_done());
  ASSERT_TRUE(queue.on_grant(1, kKeptSends + 1));
  EXPECT_TRUE(sends[kKeptSends]->is_done()) << "there is a place for it now";
}

TEST(SendQueue, WhatAQueuePairCarriesIsNotLetGo) {
  SendQueue queue(nullptr);
  queue.keep_small();
  std::vector<uint8_t> data = counted(8, 1);
  Request* send = queue.post(data.data(), 8);
  Chunk chunk;
  ASSERT_TRUE(queue.next_chunk(1, kChunkBytesMax, &chunk));
  queue.chunk_sent(chunk, false);
  EXPECT_FALSE(send->is_done());
}

TEST(ReceiveQueue, AByeSaysHowManyMessagesAreToBePlaced) {
  ReceiveQueue queue(nullptr);
  EXPECT_EQ(queue.ends_after(), std::nullopt);
  EXPECT_EQ(take(queue, frame({FrameType::kData, 4, 0, 4, 0}, 4)), Verdict::kMore);
  EXPECT_EQ(take(queue, frame({.type = FrameType::kBye, .message = 2})), Verdict::kBye);
  EXPECT_EQ(queue.ends_after(), 2u);
  EXPECT_TRUE(queue.has_all_before(1));
  EXPECT_FALSE(queue.has_all_before(2));
  EXPECT_EQ(take(queue, frame({FrameType::kData, 4, 1, 4, 0}, 4)), Verdict::kMore);
  EXPECT_TRUE(queue.has_all_before(2));
  EXPECT_EQ(queue.placed(), 0u);
}

TEST(ReceiveQueue, AByeCannotPromiseMoreThanASenderMayHaveUnderWay) {
  ReceiveQueue queue(nullptr);
  const FrameHeader bye{.type = FrameType::kBye, .message = kRequestsPerComm};
  EXPECT_EQ(take(queue, frame(bye)), Verdict::kBye);
  for (const uint64_t messages : {uint64_t{kRequestsPerComm} + 1, UINT64_MAX}) {
    EXPECT_EQ(take(queue, frame({.type = FrameType::kBye, .message = messages})), Verdict::kBroken);
  }
}

// NCCL may have its memory back before the receive is posted, and close the comm.
TEST_F(Comms, ASmallSendIsDoneAtOnceAndPlacedAfterItsSenderLeft) {
  connect();
  const std::vector<uint8_t> sent = send_and_overwrite();
  EXPECT_TRUE(sender_->should_wait_to_close());
  sender_->begin_close();
  EXPECT_FALSE(sender_->goodbye().is_abort());
  works_until([] { return false; }, kSecond);
  sender_->goodbye().finish();
  forget_sender();
  works_until([] { return false; }, 60 * kSecond);
  std::vector<uint8_t> in(1000);
  EXPECT_EQ(finish(*receiver_, post(*receiver_, in)), Result::kSuccess);
  EXPECT_EQ(in, sent);
  EXPECT_EQ(finish(*receiver_, post(*receiver_, in)), Result::kRemoteError) << "there is no more";
  EXPECT_EQ(receiver_->failure().why, "the peer closed its end");
}

// The comm failed then, and its peer lost what was on its way.
TEST_F(Comms, MemoryMayBeDeregisteredAfterAnEmptySendThatIsDone) {
  connect();
  std::vector<uint8_t> out = numbered(1000);
  const Registration* registration = sender_->add_registration(out.data(), out.size());
  Request* send = nullptr;
  EXPECT_EQ(sender_->post(out.data() + 500, 0, registration, Operation{}, &send), Result::kSuccess);
  EXPECT_EQ(finish(*sender_, send), Result::kSuccess);
  EXPECT_EQ(sender_->remove_registration(registration), Result::kSuccess);
  EXPECT_FALSE(sender_->has_failed());
  std::vector<uint8_t> in(1000);
  EXPECT_EQ(finish(*receiver_, post(*receiver_, in)), Result::kSuccess);
}

TEST(ReceiveQueue, TheGrantOfAFewSmallMessagesMayWait) {
  ReceiveQueue queue(nullptr);
  std::vector<uint8_t> place(kGrantPromptBytes + 1);
  EXPECT_FALSE(queue.may_news_wait());
  for (uint64_t i = 0; i < kKeptSends / 2; ++i) {
    queue.post(place.data(), 4);
    EXPECT_EQ(take(queue, frame({FrameType::kData, 4, i, 4, 0}, 4)), Verdict::kMore);
    EXPECT_TRUE(queue.has_news());
    EXPECT_EQ(queue.may_news_wait(), i + 1 < kKeptSends / 2) << i;
  }
  queue.make_grant();
  EXPECT_FALSE(queue.has_news());
}

TEST(ReceiveQueue, AGrantThatSomebodyWaitsForDoesNotWait) {
  ReceiveQueue queue(nullptr);
  std::vector<uint8_t> place(kGrantPromptBytes + 1);
  queue.post(place.data(), kZeroCopyBytesMin);
  queue.post(place.data(), 4);
  const FrameHeader large{FrameType::kData, kZeroCopyBytesMin, 0, kZeroCopyBytesMin, 0};
  EXPECT_EQ(take(queue, frame(large, kZeroCopyBytesMin)), Verdict::kMore);
  EXPECT_EQ(take(queue, frame({FrameType::kData, 4, 1, 4, 0}, 4)), Verdict::kMore);
  EXPECT_FALSE(queue.may_news_wait()) << "NCCL waits for the large one";
  queue.make_grant();
  queue.post(place.data(), 4);
  EXPECT_EQ(take(queue, frame({FrameType::kData, 4, 2, 4, 0}, 4)), Verdict::kMore);
  EXPECT_TRUE(queue.may_news_wait());
  queue.post(place.data(), place.size());
  EXPECT_TRUE(queue.may_news_wait());
  EXPECT_EQ(take(queue, frame({FrameType::kData, 4, 3, 1 << 15, 0}, 4)), Verdict::kMore);
  EXPECT_FALSE(queue.may_news_wait()) << "the sender may wait for room";
}

TEST(ReceiveQueue, APingAsksForTheGrant) {
  ReceiveQueue queue(nullptr);
  std::vector<uint8_t> place(4);
  for (uint64_t i = 0; i < 2; ++i) {
    queue.post(place.data(), place.size());
    EXPECT_EQ(take(queue, frame({FrameType::kData, 4, i, 4, 0}, 4)), Verdict::kMore);
    EXPECT_TRUE(queue.may_news_wait());
    EXPECT_EQ(take(queue, frame({.type = FrameType::kPing})), Verdict::kMore);
    EXPECT_FALSE(queue.may_news_wait());
    queue.make_grant();
  }
}

// NCCL makes no call on a comm whose collective is over.
TEST_F(Comms, AGrantThatWaitsIsSentWithoutACall) {
  connect();
  settle();
  send_and_receive();
  pass(kMs);
  EXPECT_FALSE(is_all_placed());
  EXPECT_TRUE(works_until([&] { return is_all_placed(); }, kGrantWaitNs + 2 * kTickNs));
}

TEST_F(Comms, WhoIsAboutToCloseAsksForIt) {
  connect();
  settle();
  send_and_receive();
  pass(kMs);
  EXPECT_TRUE(sender_->should_wait_to_close());
  EXPECT_TRUE(works_until([&] { return !sender_->should_wait_to_close(); }, 10 * kMs));
}

// It did not close the comm, as when a program just ends.
TEST_F(Comms, ASmallSendIsPlacedAfterItsProcessEnded) {
  connect();
  std::vector<uint8_t> out = numbered(1000);
  EXPECT_EQ(finish(*sender_, post(*sender_, out)), Result::kSuccess);
  works_until([] { return false; }, kMs);
  network_.kill_client(here().context());
  forget_sender();
  works_until([] { return false; }, kSecond);
  EXPECT_FALSE(receiver_->has_failed());
  std::vector<uint8_t> in(1000);
  EXPECT_EQ(finish(*receiver_, post(*receiver_, in)), Result::kSuccess);
  EXPECT_EQ(in, out);
  EXPECT_EQ(finish(*receiver_, post(*receiver_, in)), Result::kRemoteError);
}

TEST_F(Comms, ASmallSendIsRepeatedFromItsCopy) {
  connect();
  const std::vector<uint8_t> sent = send_and_overwrite();
  for (adapter_sim::Connection* connection : network_.established())
    network_.tcp().reset(*connection);
  std::vector<uint8_t> in(1000);
  EXPECT_EQ(finish(*receiver_, post(*receiver_, in)), Result::kSuccess);
  EXPECT_EQ(in, sent);
  EXPECT_TRUE(works_until([&] { return !sender_->should_wait_to_close(); }));
}

TEST_F(Comms, WhatIsLostAfterAByeIsAnErrorAtOnce) {
  here().use_all_rails();
  make_sender();
  connect();
  ASSERT_TRUE(works_until([&] { return receiver_->facts().streams.size() == 2; }));
  works_until([] { return false; }, 10 * kMs);
  network_.wires().set_rail({0, 0}, false);
  std::vector<uint8_t> out = numbered(1000);
  int done = 0;
  ASSERT_EQ(sender_->test(post(*sender_, out), &done, nullptr), Result::kSuccess);
  ASSERT_EQ(done, 1);
  sender_->begin_close();
  works_until([] { return false; }, 100 * kMs);
  EXPECT_FALSE(receiver_->has_failed()) << "the other stream said bye";
  for (adapter_sim::Connection* connection : network_.established())
    network_.tcp().reset(*connection);
  std::vector<uint8_t> in(1000);
  EXPECT_EQ(finish(*receiver_, post(*receiver_, in)), Result::kRemoteError);
  EXPECT_EQ(receiver_->failure().why,
            "the peer closed its end, and its last messages were lost with their connection");
}

}  // namespace
}  // namespace lyre::nccl_adapter
