#include "nccl_adapter/comm/comm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <vector>

#include "nccl_adapter/transport/address.h"
#include "nccl_adapter/transport/rails.h"
#include "tests/sim/adapter/lyre_api.h"
#include "tests/unit/nccl_adapter/blocked_transport.h"
#include "tests/unit/nccl_adapter/support/comms.h"

namespace lyre::nccl_adapter {
namespace {

using adapter_sim::End;

TEST_F(Comms, AMessageArrivesInItsReceive) {
  connect();
  std::vector<uint8_t> out = numbered(300'000);
  std::vector<uint8_t> in(400'000);
  Request* receive = post(*receiver_, in);
  Request* send = post(*sender_, out);
  int size = 0;
  EXPECT_EQ(finish(*receiver_, receive, &size), Result::kSuccess);
  EXPECT_EQ(size, 300'000);
  EXPECT_EQ(finish(*sender_, send), Result::kSuccess);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), in.begin()));
}

TEST_F(Comms, AStreamThatIsResetInMidMessageCostsNothing) {
  connect();
  std::vector<uint8_t> out = numbered(4'000'000);
  std::vector<uint8_t> in(out.size());
  Request* receive = post(*receiver_, in);
  post(*sender_, out);
  pass(kMs);
  for (adapter_sim::Connection* connection : network_.established())
    network_.tcp().reset(*connection);
  EXPECT_EQ(finish(*receiver_, receive), Result::kSuccess);
  EXPECT_EQ(out, in);
}

TEST_F(Comms, TheNumberOfStreamsThatWereMadeAgainNeverFalls) {
  connect();
  settle();
  for (adapter_sim::Connection* connection : network_.established())
    network_.tcp().reset(*connection);
  ASSERT_TRUE(works_until([&] { return sender_->facts().view.redials == 2; }));
  here().stream_count(0).halve();  // the second stream is given back
  ASSERT_TRUE(works_until([&] { return sender_->facts().streams.size() == 1; }));
  EXPECT_EQ(sender_->facts().view.redials, 2u);
  ASSERT_TRUE(works_until([&] { return receiver_->facts().streams.size() == 1; }));
  EXPECT_GE(receiver_->facts().view.redials, 1u) << "the second may have been given back";
}

TEST_F(Comms, AMessageThatDoesNotFitFailsBothEndsWithAReason) {
  connect();
  std::vector<uint8_t> out = numbered(20'000);
  std::vector<uint8_t> in(19'999);
  Request* receive = post(*receiver_, in);
  Request* send = post(*sender_, out);
  EXPECT_EQ(finish(*receiver_, receive), Result::kInvalidUsage);
  EXPECT_EQ(finish(*sender_, send), Result::kRemoteError);
  EXPECT_NE(sender_->failure().why.find("message 0 has 20000 bytes"), std::string::npos);
  EXPECT_EQ(in, std::vector<uint8_t>(in.size()));
}

TEST_F(Comms, DataThatIsForQueuePairsOnlyWaitsForOneAndThenFails) {
  here().set_verbs(VerbsUse::kOnly);
  connect();
  std::vector<uint8_t> out = numbered(1000);
  std::vector<uint8_t> in(1000);
  Request* receive = post(*receiver_, in);
  Request* send = post(*sender_, out);
  pass(20 * kSecond);
  EXPECT_EQ(receive->state, Request::State::kActive);
  EXPECT_FALSE(sender_->has_failed());
  EXPECT_EQ(finish(*sender_, send), Result::kRemoteError);
  EXPECT_EQ(sender_->failure().why,
            "LYRE_VERBS=only, and there was no queue pair for 30 s: no RDMA device is used here");
}

TEST_F(Comms, APeerThatVanishesIsGivenUpInWordsThatMatchTheTime) {
  connect();
  std::vector<uint8_t> in(10);
  Request* receive = post(*receiver_, in);
  network_.kill_daemon(0);
  const int64_t from_ns = events_.now_ns();
  EXPECT_EQ(finish(*receiver_, receive), Result::kRemoteError);
  const size_t at = receiver_->failure().why.find("given up after ");
  ASSERT_NE(at, std::string::npos) << receiver_->failure().why;
  const int64_t said_s = std::stoll(receiver_->failure().why.substr(at + sizeof "given up after"));
  EXPECT_NEAR(static_cast<double>(said_s),
              static_cast<double>(events_.now_ns() - from_ns) / kSecond, 1.5);
}

TEST_F(Comms, ADeadSenderIsToldAtOnce) {
  connect();
  std::vector<uint8_t> in(10);
  Request* receive = post(*receiver_, in);
  const int64_t from_ns = events_.now_ns();
  network_.kill_client(here().context());
  EXPECT_EQ(finish(*receiver_, receive), Result::kRemoteError);
  EXPECT_NE(receiver_->failure().why.find("its process ended"), std::string::npos)
      << receiver_->failure().why;
  EXPECT_LT(events_.now_ns() - from_ns, 100 * kMs);  // virtual time
}

TEST_F(Comms, ADeadReceiverIsToldAtOnceInMidMessage) {
  connect();
  std::vector<uint8_t> out = numbered(4'000'000);
  std::vector<uint8_t> in(out.size());
  post(*receiver_, in);
  Request* send = post(*sender_, out);
  pass(kMs);
  const int64_t from_ns = events_.now_ns();
  network_.kill_client(there().context());
  EXPECT_EQ(finish(*sender_, send), Result::kRemoteError);
  EXPECT_NE(sender_->failure().why.find("its process ended"), std::string::npos)
      << sender_->failure().why;
  EXPECT_LT(events_.now_ns() - from_ns, 100 * kMs);  // virtual time
}

TEST_F(Comms, TheEndOfOneOfSeveralStreamsIsNoDeath) {
  connect();
  ASSERT_TRUE(works_until([&] { return network_.established().size() == 2; }));
  // A box in between closes it towards the sender.
  network_.tcp().close(network_.established()[0]->ends[1]);
  std::vector<uint8_t> out = numbered(1000);
  std::vector<uint8_t> in(out.size());
  Request* receive = post(*receiver_, in);
  Request* send = post(*sender_, out);
  EXPECT_EQ(finish(*receiver_, receive), Result::kSuccess) << receiver_->failure().why;
  EXPECT_EQ(finish(*sender_, send), Result::kSuccess) << sender_->failure().why;
}

/// Four streams, which messages of 4 MiB keep busy for several windows of evidence.
class CommsOfFourStreams : public Comms {
 protected:
  CommsOfFourStreams() : Comms({.hosts = 2, .bytes_per_s = 100'000'000}, 4) {}

  void exchange(size_t bytes, int times) {
    std::vector<uint8_t> out(bytes, 1);
    std::vector<uint8_t> in(bytes);
    for (int i = 0; i < times; ++i) {
      Request* receive = post(*receiver_, in);
      ASSERT_EQ(finish(*sender_, post(*sender_, out)), Result::kSuccess);
      ASSERT_EQ(finish(*receiver_, receive), Result::kSuccess);
    }
  }
};

// Each of them goes over one stream, which carries less than it did: no reason to replace it.
TEST_F(CommsOfFourStreams, SmallMessagesAfterLargeOnesMakeNoStreamSlow) {
  connect();
  ASSERT_TRUE(works_until([&] { return network_.established().size() == 4; }));
  ASSERT_NO_FATAL_FAILURE(exchange(4 << 20, 20));
  const size_t before = network_.connections().size();
  ASSERT_NO_FATAL_FAILURE(exchange(1000, 500));
  EXPECT_EQ(network_.connections().size(), before);
}

// Of the times that TCP and the plugin need, only virtual ones are compared.
TEST_F(Comms, AGrantThatIsLostGoesOverAStreamThatIsNotStalled) {
  connect();
  ASSERT_TRUE(works_until([&] { return network_.established().size() == 2; }));
  std::vector<uint8_t> out = numbered(100);
  std::vector<uint8_t> in(out.size());
  Request* send = post(*sender_, out);
  pass(5 * kMs);  // it is there, and no receive is posted
  for (const auto& connection : network_.connections()) {
    if (connection->ends[0].queued > 200) connection->blackholed_until_ns = INT64_MAX;
  }
  const int64_t from_ns = events_.now_ns();
  Request* receive = post(*receiver_, in);
  EXPECT_EQ(finish(*receiver_, receive), Result::kSuccess);
  EXPECT_EQ(finish(*sender_, send), Result::kSuccess) << sender_->failure().why;
  EXPECT_LT(events_.now_ns() - from_ns, kStallNs + 100 * kMs);
}

// The sender dials again, and hears that its message was placed.
TEST_F(Comms, AReceiverWithoutStreamsIsHeardBeforeItsCloseIsDone) {
  connect();
  std::vector<uint8_t> out = numbered(1000);
  std::vector<uint8_t> in(out.size());
  Request* receive = post(*receiver_, in);
  Request* send = post(*sender_, out);
  EXPECT_EQ(finish(*receiver_, receive), Result::kSuccess);
  for (adapter_sim::Connection* connection : network_.established())
    network_.tcp().reset(*connection);
  receiver_->pump();
  receiver_->begin_close();
  EXPECT_TRUE(receiver_->goodbye().is_done()) << "no stream is left";
  EXPECT_FALSE(receiver_->goodbye().is_heard());
  EXPECT_TRUE(works_until([&] { return receiver_->goodbye().is_heard(); }));
  EXPECT_EQ(finish(*sender_, send), Result::kSuccess) << sender_->failure().why;
}

/// A path lets hellos through, and the grants of the peer, and drops what is larger: a stream loses
/// all that it carries from its first data on.
class CommsOverAPathThatDropsData : public Comms {
 protected:
  static constexpr size_t kMessageBytes = 300'000;

  void drop_data() {
    for (const auto& connection : network_.connections()) {
      const uint64_t queued = connection->ends[0].queued;
      if (is_dropping_ && queued > kHelloBytes + kFrameHeaderBytes)
        connection->blackholed_until_ns = INT64_MAX;
    }
  }
  /// The result of the send when it is over, or after so long.
  Result work(int64_t ns) {
    Result result = Result::kSuccess;
    works_until(
        [&] {
          result = sender_->test(send_, &done_, nullptr);
          drop_data();
          return done_ != 0 || result != Result::kSuccess;
        },
        ns);
    return result;
  }
  void begin() {
    connect();
    post(*receiver_, in_);
    send_ = post(*sender_, out_);
    drop_data();
  }

  std::vector<uint8_t> out_ = numbered(kMessageBytes);
  std::vector<uint8_t> in_ = std::vector<uint8_t>(kMessageBytes);
  Request* send_ = nullptr;
  int done_ = 0;
  bool is_dropping_ = true;
};

TEST_F(CommsOverAPathThatDropsData, FailAfterThePeersTimeoutWithACauseOfTheirOwn) {
  begin();
  EXPECT_EQ(work(29 * kSecond), Result::kSuccess);
  EXPECT_EQ(work(15 * kSecond), Result::kRemoteError);
  EXPECT_NE(sender_->failure().why.find("it is connected, but no data arrives"), std::string::npos)
      << sender_->failure().why;
}

// TCP needs more than a second to find that a path drops large packets.
TEST_F(CommsOverAPathThatDropsData, GiveEachStreamMoreTimeThanTheOneBefore) {
  begin();
  const size_t before = network_.connections().size();
  work(14 * kSecond);
  EXPECT_LE(network_.connections().size() - before, 12u) << "two streams: 1, 2, 4 and 8 s";
  EXPECT_FALSE(sender_->has_failed());
}

TEST_F(CommsOverAPathThatDropsData, GoOnWhenThePathIsGoodAgain) {
  begin();
  work(20 * kSecond);
  EXPECT_EQ(done_, 0);
  is_dropping_ = false;
  EXPECT_EQ(work(20 * kSecond), Result::kSuccess) << sender_->failure().why;
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(out_, in_);
}

TEST_F(Comms, TcpGivesASilentPeerUpWhileThereIsTimeForOtherPaths) {
  connect();
  const int64_t silence_ns = silence_ms(here().settings()) * kMs;
  EXPECT_LT(silence_ns, here().settings().peer_timeout_s * kNsPerSecond);
  for (const End& end : network_.established().front()->ends) {
    EXPECT_EQ(end.user_timeout_ns, silence_ns);
  }
}

/// Their one stream goes over the first rail when it can.
class CommsThatLoseTheirRail : public Comms {
 protected:
  CommsThatLoseTheirRail() : Comms({.hosts = 2, .rails = 2}, 1) {}

  void set_first_rail(bool is_up) { network_.wires().set_rail({1, 0}, is_up); }
  bool is_over(std::string_view rail) const {
    const std::vector<StreamFacts> streams = sender_->facts().streams;
    return streams.size() == 1 && streams[0].is_up && streams[0].rail == rail;
  }
  void wait(int64_t ns) {
    works_until([] { return false; }, ns);
  }
};

TEST_F(CommsThatLoseTheirRail, AreBackSoonAfterAShortOutageAlsoIfThereWasALongOne) {
  connect();
  set_first_rail(false);
  send_and_receive();
  ASSERT_TRUE(is_over("over rail1"));
  wait(80 * kSecond);
  set_first_rail(true);
  ASSERT_TRUE(works_until([&] { return is_over("over rail0"); }, 2 * kReturnNsMax));
  wait(kReturnNsMax + kSecond);
  set_first_rail(false);
  send_and_receive();
  ASSERT_TRUE(is_over("over rail1"));
  set_first_rail(true);
  EXPECT_TRUE(works_until([&] { return is_over("over rail0"); }, 10 * kSecond));
}

constexpr uint64_t kFlowBytesPerS = 8'000'000;

/// Four flows fill the host's share of the network.
class CappedComms : public Comms {
  static constexpr size_t kMessages = 8;

  /// What one side has under way: as many messages at a time as there are places, used in turn.
  struct Messages {
    Comm* comm;
    std::vector<std::vector<uint8_t>> data{kMessages, std::vector<uint8_t>(128 * 1024, 1)};
    std::vector<Request*> requests = std::vector<Request*>(kMessages);
    uint64_t posted = 0;
    uint64_t done = 0;
  };

 protected:
  explicit CappedComms(size_t connects_max = 0, int64_t streams = 0)
      : Comms({.hosts = 2,
               .host_bytes_per_s = 4 * kFlowBytesPerS,
               .flow_bytes_per_s = kFlowBytesPerS,
               .segment_bytes_max = 8'960,
               .in_flight_bytes_max = 64 * 1024,
               .connects_max = connects_max},
              streams) {}

  /// Keeps messages under way for so long, and then waits for them.
  void be_busy(
      int64_t ns, const std::function<void()>& meanwhile = [] {}) {
    const int64_t end_ns = events_.now_ns() + ns;
    Messages receives{receiver_};
    Messages sends{sender_.get()};
    // A send is done later than its receive: the sides would not end after the same message if each
    // went by the clock.
    const auto work = [&](Messages& own, const Messages& other) {
      for (size_t i = 0; i < kMessages; ++i) {
        const bool is_next = events_.now_ns() < end_ns || own.posted < other.posted;
        if (own.requests[i] == nullptr && is_next && own.posted % kMessages == i) {
          own.requests[i] = post(*own.comm, own.data[i]);
          ++own.posted;
        }
        if (own.requests[i] == nullptr) continue;
        int done = 0;
        EXPECT_EQ(own.comm->test(own.requests[i], &done, nullptr), Result::kSuccess);
        if (done == 0) continue;
        own.requests[i] = nullptr;
        ++own.done;
      }
      return events_.now_ns() >= end_ns && own.done == own.posted && own.posted >= other.posted;
    };
    EXPECT_TRUE(works_until([&] {
      meanwhile();
      const bool is_received = work(receives, sends);
      return work(sends, receives) && is_received;
    }));
  }
};

/// This host's daemon has room for two connections.
class CappedCommsOfASmallDaemon : public CappedComms {
 protected:
  explicit CappedCommsOfASmallDaemon(int64_t streams = 0) : CappedComms(2, streams) {}

  bool has_both_streams() const {
    const std::vector<StreamFacts> streams = sender_->facts().streams;
    return std::ranges::count_if(streams, &StreamFacts::is_up) == 2;
  }
  /// For another connection.
  void take_a_place() {
    const lyre_addr local = make_addr(address_of(here().ports()[0]), 0);
    const lyre_addr remote = make_addr(address_of(there().ports()[0]), acceptor_->port());
    lyre_session* session = nullptr;
    while (lyre_connect(here().context(), &local, &remote, &session) == LYRE_E_AGAIN) continue;
    ASSERT_NE(session, nullptr);
    other_connection_ = Stream(session);
  }

  Stream other_connection_;
};

// Four fill the share; the trial of eight showed that, and the others are to spare.
TEST_F(CappedComms, GetTheStreamsThatTheyNeedAndForgetThemInAPause) {
  connect();
  EXPECT_EQ(sender_->facts().streams.size(), 1u);
  be_busy(2 * kSecond);
  EXPECT_EQ(sender_->facts().streams.size(), 8u);
  EXPECT_EQ(receiver_->facts().streams.size(), 8u);
  EXPECT_EQ(network_.established().size(), 8u);
  works_until([] { return false; }, kForgetStreamsNs + kSecond);
  EXPECT_EQ(sender_->facts().streams.size(), 1u);
  EXPECT_EQ(receiver_->facts().streams.size(), 1u) << "nobody misses the others";
  be_busy(100 * kMs);
  EXPECT_FALSE(sender_->has_failed() || receiver_->has_failed());
}

// A stream that found no room is not dialled for kNoRoomNs, unless a new trial asks for it.
TEST_F(CappedCommsOfASmallDaemon, GetTheirStreamsInTheNextTrialAfterThereIsRoom) {
  connect();
  take_a_place();
  be_busy(3 * kSecond);
  EXPECT_GT(network_.refused_connects(), 0u);
  EXPECT_EQ(here().stream_count(0).wanted(), 1u);
  other_connection_ = Stream();
  be_busy(kTryAgainNsMin + kSecond);
  EXPECT_EQ(here().stream_count(0).wanted(), 2u);
  EXPECT_TRUE(has_both_streams());
}

TEST_F(CappedComms, ThatAreIdleGetNoStreamsForTheSakeOfOthers) {
  connect();
  StreamCount& count = here().stream_count(0);
  const auto another_is_busy = [&] {
    count.report(
        {.acked_bytes = count.wanted() * 1'000'000, .is_busy = true, .up = count.wanted()});
    return false;
  };
  works_until(another_is_busy, 2 * kSecond);
  EXPECT_GT(count.wanted(), 4u);
  EXPECT_EQ(sender_->facts().streams.size(), 1u);
}

/// The first of two streams is lost, and another connection takes its place.
class CommsThatLoseTheirFirstStream : public CappedCommsOfASmallDaemon {
 protected:
  explicit CommsThatLoseTheirFirstStream(int64_t streams = 2)
      : CappedCommsOfASmallDaemon(streams) {}

  void lose_the_first_stream() {
    const std::vector<adapter_sim::Connection*> streams = network_.established();
    ASSERT_EQ(streams.size(), 2u);
    second_ = streams[1];
    network_.tcp().reset(*streams[0]);
    take_a_place();
  }
  bool has_second_stream() { return std::ranges::count(network_.established(), second_) == 1; }

  const adapter_sim::Connection* second_ = nullptr;
};

TEST_F(CommsThatLoseTheirFirstStream, FinishTheirMessageOverTheOtherWhereOneIsWanted) {
  connect();
  ASSERT_TRUE(works_until([&] { return has_both_streams(); }));
  std::vector<uint8_t> out = numbered(4'000'000);
  std::vector<uint8_t> in(out.size());
  Request* receive = post(*receiver_, in);
  post(*sender_, out);
  pass(kMs);
  ASSERT_NO_FATAL_FAILURE(lose_the_first_stream());
  here().stream_count(0).halve();
  EXPECT_EQ(finish(*receiver_, receive), Result::kSuccess) << receiver_->failure().why;
  EXPECT_TRUE(out == in);
}

TEST_F(CommsThatLoseTheirFirstStream, KeepTheOtherWithoutTrafficWhereOneIsWanted) {
  connect();
  ASSERT_TRUE(works_until([&] { return has_both_streams(); }));
  ASSERT_NO_FATAL_FAILURE(lose_the_first_stream());
  here().stream_count(0).halve();
  works_until([] { return false; }, 15 * kSecond);
  EXPECT_TRUE(has_second_stream());
  send_and_receive();
}

class CommsThatLoseTheirFirstStreamInATrial : public CommsThatLoseTheirFirstStream {
 protected:
  CommsThatLoseTheirFirstStreamInATrial() : CommsThatLoseTheirFirstStream(0) {}
};

TEST_F(CommsThatLoseTheirFirstStreamInATrial, GoOnOverTheOtherWhenTheTrialIsOver) {
  connect();
  be_busy(3 * kSecond, [&] {
    if (second_ == nullptr && has_both_streams()) lose_the_first_stream();
  });
  EXPECT_EQ(here().stream_count(0).wanted(), 1u);
  EXPECT_TRUE(has_second_stream());
}

TEST_F(Comms, AStreamOfAClosedCommHearsHowItEnded) {
  connect();
  receiver_->begin_close();
  ASSERT_TRUE(works_until([&] { return receiver_->goodbye().is_done(); }));
  receivers_.on_close(receiver_);
  receiver_->goodbye().finish();
  Stream stream;
  const Hello hello{.stream_count = 2, .incarnation = 7, .comm_id = receiver_->id()};
  const Decision decision = receivers_.on_hello(hello, "somewhere", &stream, {});
  EXPECT_EQ(decision.code, AnswerCode::kDeparted);
  EXPECT_FALSE(decision.is_foreign);
}

TEST_F(Comms, WhoKnowsNoNonceIsAStranger) {
  Stream stream;
  const Hello hello{.nonce = Nonce{1, 2, 3}, .comm_id = Nonce{4}};
  const Decision decision = receivers_.on_hello(hello, "somewhere", &stream, {});
  EXPECT_EQ(decision.code, AnswerCode::kUnknown);
  EXPECT_TRUE(decision.is_foreign);
}

/// A comm with one stream, which is blocked.
class BlockedComm final : public Comm {
 public:
  BlockedComm(Environment* environment, const lyre_region* region)
      : Comm(environment, Nonce{5}, Peer{}, 1), requests_(this) {
    lanes_[0].attach(std::make_unique<BlockedTransport>(region), 1, environment->now_ns());
  }
  bool has_stream() const { return lanes_.is_any_up(); }

 private:
  Request* post_request(void*, uint64_t) override { return nullptr; }
  RequestTable& requests() override { return requests_; }
  const RequestTable& requests() const override { return requests_; }
  bool is_sender() const override { return true; }
  void describe(nccl_abi::CommView*) const override {}
  void pump_out() override {}
  bool take(Lane&, std::span<const uint8_t>) override { return true; }

  RequestTable requests_;
};

// The last user is another comm, which does not know this one's streams: they must not keep a
// pointer to the region.
TEST_F(Comms, AStreamThatIsBlockedInMemoryOfSeveralUsersIsDroppedByEach) {
  std::vector<uint8_t> data(kZeroCopyBytesMin);
  Memory* memory = here().take_memory(data.data(), data.size());
  ASSERT_NE(memory->region, nullptr);
  BlockedComm comm(&here(), memory->region);
  const Registration* registration = comm.add_registration(data.data(), data.size());
  EXPECT_EQ(memory->users, 2u);
  EXPECT_EQ(comm.remove_registration(registration), Result::kSuccess);
  EXPECT_FALSE(comm.has_stream());
  EXPECT_EQ(memory->users, 1u);
  here().give_back_memory(memory);
}

}  // namespace
}  // namespace lyre::nccl_adapter
