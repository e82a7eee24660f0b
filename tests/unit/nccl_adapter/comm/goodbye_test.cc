#include "nccl_adapter/comm/goodbye.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "nccl_adapter/protocol/frame.h"
#include "nccl_adapter/transport/rails.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

namespace lyre::nccl_adapter {
namespace {

struct NoWaiter final : SessionOwner {
  void on_ready() override {}
};

/// Two lanes on one host; their streams end at sessions of the other.
class Goodbyes : public TwoHosts {
 protected:
  Goodbyes() {
    const lyre_addr any{};
    EXPECT_EQ(lyre_listen(there().context(), &any, 8, &listener_), 0);
    there().on_listener = [this] {
      lyre_session* session = nullptr;
      while (lyre_accept(listener_, &session) == 0) far_.emplace_back(session);
    };
    for (size_t i = 0; i < lanes_.size(); ++i)
      lanes_[i].attach(std::make_unique<Stream>(connect(i)), 1, here().now_ns());
    EXPECT_TRUE(until([&] { return far_.size() == lanes_.size(); }));
  }
  ~Goodbyes() override {
    lanes_.drop_all();
    far_.clear();
    lyre_close_listener(listener_);
  }

  Stream connect(size_t rail) {
    lyre_addr remote{};
    lyre_listener_addr(listener_, &remote);
    lyre_addr local{};
    const Address from = address_of(here().ports()[rail]);
    const Address to = address_of(there().ports()[rail]);
    std::copy(from.begin(), from.end(), std::begin(local.address));
    std::copy(to.begin(), to.end(), std::begin(remote.address));
    lyre_session* session = nullptr;
    while (lyre_connect(here().context(), &local, &remote, &session) == LYRE_E_AGAIN) pass(kMs);
    Stream stream(session);
    EXPECT_TRUE(until([&] { return stream.state() == LYRE_OPEN; }));
    return stream;
  }
  static std::vector<uint8_t> read(Stream& stream) {
    std::vector<uint8_t> all;
    std::span<const uint8_t> bytes;
    while (stream.peek(&bytes) == Io::kOk) {
      all.insert(all.end(), bytes.begin(), bytes.end());
      stream.consume(bytes.size());
    }
    stream.release();
    return all;
  }

  void begin(const std::vector<uint8_t>& last = {}) { goodbye_.begin({.last = last}); }

  NoWaiter waiter_;
  Lanes lanes_{&waiter_, 2};
  PeerWatch peer_watch_{here().now_ns()};
  Goodbye goodbye_{&here(), &lanes_, &peer_watch_};
  lyre_listener* listener_ = nullptr;
  std::vector<Stream> far_;
};

TEST_F(Goodbyes, EveryStreamCarriesTheLastWordsAndABye) {
  const std::vector<uint8_t> words = {1, 2, 3};
  begin(words);
  EXPECT_TRUE(goodbye_.is_begun());
  EXPECT_FALSE(goodbye_.is_abort());
  pass(10 * kMs);
  for (Stream& stream : far_) {
    const std::vector<uint8_t> bytes = read(stream);
    ASSERT_EQ(bytes.size(), words.size() + kFrameHeaderBytes);
    EXPECT_TRUE(std::equal(words.begin(), words.end(), bytes.begin()));
  }
}

TEST_F(Goodbyes, OneStreamIsEnoughToBeHeardAndAllToBeDone) {
  network_.wires().set_rail({1, 1}, false);
  begin();
  EXPECT_FALSE(goodbye_.is_acknowledged());
  pass(10 * kMs);
  EXPECT_TRUE(goodbye_.is_acknowledged());
  EXPECT_FALSE(goodbye_.is_done());
  network_.wires().set_rail({1, 1}, true);
  EXPECT_TRUE(until([&] { return goodbye_.is_done(); }));
}

TEST_F(Goodbyes, WhatWasHeardOverAnotherStreamIsNotRepeated) {
  network_.wires().set_rail({1, 1}, false);
  begin();
  pass(10 * kMs);
  goodbye_.finish();
  network_.wires().set_rail({1, 1}, true);
  pass(kMs);
  EXPECT_EQ(network_.established().size(), 1u) << "the silent one was reset, the other has a FIN";
}

TEST_F(Goodbyes, DataIsHeardOverItsOwnStreamOnly) {
  network_.wires().set_rail({1, 1}, false);
  goodbye_.begin({.is_data_under_way = true});
  pass(10 * kMs);
  goodbye_.finish();
  network_.wires().set_rail({1, 1}, true);
  pass(kMs);
  EXPECT_EQ(network_.established().size(), 2u) << "both have a FIN";
}

TEST_F(Goodbyes, TheByeIsTheOneThatWasGiven) {
  const FrameHeader bye{.type = FrameType::kBye, .message = 7};
  goodbye_.begin({.bye = bye});
  pass(10 * kMs);
  for (Stream& stream : far_) {
    const std::vector<uint8_t> bytes = read(stream);
    ASSERT_EQ(bytes.size(), kFrameHeaderBytes);
    FrameHeader said;
    ASSERT_TRUE(decode(std::span(bytes).first<kFrameHeaderBytes>(), &said));
    EXPECT_EQ(said, bye);
  }
}

// A FIN is acknowledged at once, a few bytes perhaps not.
TEST_F(Goodbyes, NothingFollowsTheByeButAFin) {
  begin();
  EXPECT_EQ(lanes_[0].transport->send_small(std::vector<uint8_t>(5)), Io::kOk);
  pass(10 * kMs);
  for (Stream& stream : far_) {
    EXPECT_EQ(read(stream).size(), kFrameHeaderBytes);
    std::span<const uint8_t> rest;
    EXPECT_EQ(stream.peek(&rest), Io::kFinished);
  }
}

TEST_F(Goodbyes, DataThatIsUnderWayMayFollowTheBye) {
  goodbye_.begin({.is_data_under_way = true});
  EXPECT_EQ(lanes_[0].transport->send_small(std::vector<uint8_t>(5)), Io::kOk);
  pass(10 * kMs);
  EXPECT_EQ(read(far_[0]).size(), kFrameHeaderBytes + 5);
  std::span<const uint8_t> rest;
  EXPECT_EQ(far_[1].peek(&rest), Io::kOk);
  far_[1].consume(rest.size());
}

TEST_F(Goodbyes, AnAbortEndsTheStreamsAtOnce) {
  goodbye_.begin({.is_abort = true});
  EXPECT_TRUE(goodbye_.is_abort());
  EXPECT_FALSE(lanes_.is_any_up());
  EXPECT_TRUE(goodbye_.is_done());
}

TEST_F(Goodbyes, APeerThatAnsweredHasHeard) {
  lanes_.drop_all();
  begin();
  EXPECT_FALSE(goodbye_.is_acknowledged());
  goodbye_.note_answered();
  EXPECT_TRUE(goodbye_.is_acknowledged());
}

TEST_F(Goodbyes, AStreamThatComesLaterIsTold) {
  lanes_[1].drop();
  far_.clear();
  begin();
  lanes_[1].attach(std::make_unique<Stream>(connect(1)), 2, here().now_ns());
  goodbye_.say(lanes_[1], {});
  EXPECT_TRUE(until([&] { return !far_.empty() && !read(far_.back()).empty(); }));
}

TEST_F(Goodbyes, LastWordsAreHeardWhenAHostHasThem) {
  network_.wires().set_rail({1, 0}, false);
  network_.wires().set_rail({1, 1}, false);
  begin({1, 2, 3});
  EXPECT_FALSE(goodbye_.is_heard());
  lanes_.drop_all();
  EXPECT_TRUE(goodbye_.is_done());
  EXPECT_FALSE(goodbye_.is_heard()) << "the peer dials again for them";
  goodbye_.note_answered();
  EXPECT_TRUE(goodbye_.is_heard());
}

TEST_F(Goodbyes, NobodyWaitsForTheLastWordsWhereThePeersProcessHasEnded) {
  peer_watch_.note_ended();
  begin({1, 2, 3});
  EXPECT_FALSE(goodbye_.is_heard()) << "perhaps only one of its streams ended so";
  lanes_.drop_all();
  EXPECT_TRUE(goodbye_.is_heard());
  EXPECT_FALSE(goodbye_.is_acknowledged());
}

TEST_F(Goodbyes, NobodyWaitsForThemAfterThePeersBye) {
  peer_watch_.note_bye();
  begin({1, 2, 3});
  EXPECT_TRUE(goodbye_.is_heard());
}

TEST_F(Goodbyes, WithoutLastWordsNothingIsWaitedForWhenNoStreamIsLeft) {
  lanes_.drop_all();
  begin();
  EXPECT_TRUE(goodbye_.is_heard());
}

TEST_F(Goodbyes, NobodyWaitsForTheLastWordsOfAnAbort) {
  lanes_.drop_all();
  const std::vector<uint8_t> words = {1, 2, 3};
  goodbye_.begin({.is_abort = true, .last = words});
  EXPECT_TRUE(goodbye_.is_heard());
}

}  // namespace
}  // namespace lyre::nccl_adapter
