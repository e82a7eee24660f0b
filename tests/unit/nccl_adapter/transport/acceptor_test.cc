#include "nccl_adapter/transport/acceptor.h"

#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/transport/address.h"
#include "nccl_adapter/transport/dial.h"
#include "nccl_adapter/transport/rails.h"
#include "tests/sim/adapter/lyre_api.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

// The dialling and the accepting end of a stream: Dial on one host, Acceptor on the other.
namespace lyre::nccl_adapter {
namespace {

class Waiter final : public SessionOwner {
 public:
  void on_ready() override { ++count; }
  int count = 0;
};

std::vector<std::string> g_acceptor_warnings;

void keep_acceptor_warning(nccl_abi::LogLevel level, unsigned long, const char*, int,
                           const char* format, ...) {
  if (level != nccl_abi::LogLevel::kWarn) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  g_acceptor_warnings.push_back(text);
}

class DialAndAcceptor : public TwoHosts, private HelloReceiver {
 protected:
  DialAndAcceptor() : acceptor_(Acceptor::open(&there(), this, &telemetry_, &lines_)) {
    there().on_listener = [this] { acceptor_->on_ready(); };
  }
  ~DialAndAcceptor() override {
    taken_.clear();
    acceptor_.reset();
    set_logger(nullptr);
  }

  Dial make_dial(size_t rail = 0) {
    const lyre_addr local = make_addr(address_of(here().ports()[rail]), 0);
    const lyre_addr remote = make_addr(address_of(there().ports()[rail]), acceptor_->port());
    return Dial(local, remote, hello_, 20'000, &waiter_);
  }
  /// A connection that has said nothing yet.
  Stream connect() {
    const lyre_addr local = make_addr(address_of(here().ports()[0]), 0);
    const lyre_addr remote = make_addr(address_of(there().ports()[0]), acceptor_->port());
    lyre_session* session = nullptr;
    while (lyre_connect(here().context(), &local, &remote, &session) == LYRE_E_AGAIN) pass(kMs);
    return Stream(session);
  }
  /// Speaks another protocol, and hears what the acceptor thinks of that.
  void connect_as_stranger() {
    Stream stream = connect();
    ASSERT_TRUE(until([&] { return stream.state() == LYRE_OPEN; }));
    const uint8_t request[] = {'G', 'E', 'T', ' '};
    stream.send_small(request);
    EXPECT_TRUE(until([&] { return stream.state() == LYRE_ENDED; }));
  }
  Dial::State run(Dial& dial, int64_t deadline_after_ns = 3 * kSecond) {
    const int64_t deadline_ns = events_.now_ns() + deadline_after_ns;
    Dial::State state = Dial::State::kPending;
    until([&] {
      state = dial.advance(here().context(), events_.now_ns(), deadline_ns);
      return state != Dial::State::kPending;
    });
    return state;
  }

  Hello hello_{.stream_index = 1, .stream_count = 2, .incarnation = 3, .host = "host0"};
  Decision decision_;
  std::vector<Hello> hellos_;
  std::vector<Stream> taken_;
  Waiter waiter_;
  Telemetry telemetry_{"none", "host1", "sim/1", 1};
  ForeignLines lines_;  // those of the process know the time of earlier tests
  std::unique_ptr<Acceptor> acceptor_;

 private:
  Decision on_hello(const Hello& hello, const std::string&, Stream* stream,
                    std::span<const uint8_t> welcome) override {
    hellos_.push_back(hello);
    if (decision_.code == AnswerCode::kWelcome) {
      taken_.push_back(std::move(*stream));
      taken_.back().set_owner(nullptr);
      taken_.back().send_small(welcome);
    }
    return decision_;
  }
};

TEST_F(DialAndAcceptor, AWelcomeBringsAStreamAndThePeersAddresses) {
  Dial dial = make_dial();
  ASSERT_EQ(run(dial), Dial::State::kWelcome);
  ASSERT_EQ(hellos_.size(), 1u);
  EXPECT_EQ(hellos_[0].stream_index, 1);
  EXPECT_EQ(hellos_[0].incarnation, 3u);
  EXPECT_EQ(dial.answer().host, "host1");
  EXPECT_EQ(dial.answer().rails.size(), 2u);
  EXPECT_TRUE(dial.take_stream().is_open());
  EXPECT_EQ(acceptor_->pending(), 0u);
}

// A receiver that asks for new dials in this moment does not make the sender abort this one.
TEST_F(DialAndAcceptor, ADialIsAcceptedFromItsHandshakeOnUntilItMayBeWithADaemonThatIsGone) {
  Dial dial = make_dial();
  const auto advance = [&] {
    return dial.advance(here().context(), events_.now_ns(), events_.now_ns() + kSecond);
  };
  EXPECT_EQ(advance(), Dial::State::kPending);
  EXPECT_FALSE(dial.is_accepted(events_.now_ns()));
  pass(kMs);
  EXPECT_TRUE(dial.is_accepted(events_.now_ns()));
  network_.wires().set_rail({1, 0}, false);
  EXPECT_EQ(advance(), Dial::State::kPending) << "its hello is lost";
  pass(kMs);
  EXPECT_FALSE(dial.is_hello_acknowledged());
  EXPECT_TRUE(dial.is_accepted(events_.now_ns()));
  pass(kJustConnectedNs);
  EXPECT_FALSE(dial.is_accepted(events_.now_ns()));
  network_.wires().set_rail({1, 0}, true);
  EXPECT_TRUE(until([&] { return dial.is_accepted(events_.now_ns()); }));
}

TEST_F(DialAndAcceptor, TheHighestVersionThatBothKnowIsChosen) {
  constexpr std::pair<uint16_t, uint16_t> kCases[] = {{2, 2}, {3, 3}, {4, 4}, {9, 4}};
  for (const auto& [peer_max, chosen] : kCases) {
    hello_.version_max = peer_max;
    Dial dial = make_dial();
    ASSERT_EQ(run(dial), Dial::State::kWelcome);
    EXPECT_EQ(dial.answer().version, chosen) << peer_max;
  }
  decision_ = Decision::late(AnswerCode::kUnknown, "that comm has failed there");
  hello_.version_max = 2;
  Dial dial = make_dial();
  ASSERT_EQ(run(dial), Dial::State::kRefused);
  EXPECT_EQ(dial.answer().version, 2);
}

TEST_F(DialAndAcceptor, ARefusalSaysWhy) {
  decision_ = Decision::late(AnswerCode::kDeparted, "it closed that comm", 17);
  Dial dial = make_dial();
  ASSERT_EQ(run(dial), Dial::State::kRefused);
  EXPECT_EQ(dial.answer().code, AnswerCode::kDeparted);
  EXPECT_EQ(dial.answer().text, "it closed that comm");
  EXPECT_EQ(dial.answer().placed, 17u);
}

// A FIN would mean that the process ended.
TEST_F(DialAndAcceptor, ARefusalThatFindsNoRoomResetsAndIsSaidToTheNextDial) {
  decision_ = Decision::late(AnswerCode::kDeparted, "it closed that comm", 17);
  lyre_block all{};
  ASSERT_EQ(lyre_block_alloc(there().context(), network_.settings().arena_bytes, &all), 0);
  Dial first = make_dial();
  EXPECT_EQ(run(first), Dial::State::kFailed);
  EXPECT_EQ(first.error(), LYRE_E_RESET);
  EXPECT_EQ(acceptor_->pending(), 0u);
  lyre_block_free(there().context(), &all);
  Dial second = make_dial();
  ASSERT_EQ(run(second), Dial::State::kRefused);
  EXPECT_EQ(second.answer().placed, 17u);
}

TEST_F(DialAndAcceptor, WhereNobodyListensADialIsRefusedAtOnce) {
  Dial dial = make_dial();
  acceptor_->on_detached();
  EXPECT_EQ(run(dial), Dial::State::kFailed);
  EXPECT_EQ(dial.error(), LYRE_E_REFUSED);
}

TEST_F(DialAndAcceptor, ADialEndsAtItsDeadlineWhereNothingAnswers) {
  network_.wires().set_rail({1, 0}, false);
  Dial dial = make_dial();
  const int64_t from_ns = events_.now_ns();
  EXPECT_EQ(run(dial, 3 * kSecond), Dial::State::kFailed);
  EXPECT_EQ(dial.error(), LYRE_E_TIMEDOUT);
  EXPECT_GE(events_.now_ns() - from_ns, 3 * kSecond);
  EXPECT_TRUE(hellos_.empty());
}

TEST_F(DialAndAcceptor, APathThatBreaksBehindTheHandshakeEndsTheDialInTimeToo) {
  Dial dial = make_dial();
  dial.advance(here().context(), events_.now_ns(), INT64_MAX);
  ASSERT_TRUE(until([&] { return waiter_.count > 0; }));
  network_.wires().set_rail({1, 0}, false);
  const int64_t from_ns = events_.now_ns();
  EXPECT_EQ(run(dial, 3 * kSecond), Dial::State::kFailed);
  // Virtual time: TCP's own patience would be twenty seconds.
  EXPECT_LT(events_.now_ns() - from_ns, 4 * kSecond);
  EXPECT_EQ(dial.error(), LYRE_E_TIMEDOUT);
}

TEST_F(DialAndAcceptor, AConnectionWithoutAHelloIsRejectedInTime) {
  const Stream stream = connect();
  ASSERT_TRUE(until([&] { return acceptor_->pending() == 1; }));
  pass(there().settings().handshake_timeout_ms * kMs + kMs);
  acceptor_->expire();
  EXPECT_EQ(acceptor_->pending(), 0u);
  EXPECT_TRUE(until([&] { return stream.state() == LYRE_ENDED; }));
  EXPECT_EQ(stream.error(), LYRE_E_RESET);
}

TEST_F(DialAndAcceptor, OtherProtocolsAreResetAtTheFirstWrongByte) {
  connect_as_stranger();
  EXPECT_TRUE(hellos_.empty());
}

TEST_F(DialAndAcceptor, PortScannersDoNotUseUpTheLinesAboutOtherVersions) {
  set_logger(keep_acceptor_warning);
  g_acceptor_warnings.clear();
  for (uint32_t i = 0; i < 2 * kForeignLinesPerHour; ++i) connect_as_stranger();
  EXPECT_LE(g_acceptor_warnings.size(), kForeignLinesPerHour);
  g_acceptor_warnings.clear();
  hello_.version_min = hello_.version_max = kProtocolVersionMax + 1;
  Dial dial = make_dial();
  EXPECT_EQ(run(dial), Dial::State::kRefused);
  ASSERT_EQ(g_acceptor_warnings.size(), 1u);
  EXPECT_NE(g_acceptor_warnings[0].find("install the same Lyre"), std::string::npos);
}

TEST_F(DialAndAcceptor, AnAnswerFromMemoryThatWasTakenBackDoesNotCount) {
  here().context()->failure_at_check = LYRE_E_EXPELLED;
  Dial dial = make_dial();
  EXPECT_EQ(run(dial), Dial::State::kFailed);
  EXPECT_EQ(dial.error(), LYRE_E_EXPELLED);
}

TEST_F(DialAndAcceptor, AHelloFromMemoryThatWasTakenBackDoesNotCount) {
  there().context()->failure_at_check = LYRE_E_EXPELLED;
  Dial dial = make_dial();
  EXPECT_NE(run(dial), Dial::State::kWelcome);
  EXPECT_TRUE(hellos_.empty());
  EXPECT_EQ(acceptor_->pending(), 0u);
}

TEST_F(DialAndAcceptor, ThePortStaysTheSameAfterADetach) {
  const uint16_t port = acceptor_->port();
  acceptor_->on_detached();
  ASSERT_TRUE(acceptor_->on_attached());
  EXPECT_EQ(acceptor_->port(), port);
  Dial dial = make_dial();
  EXPECT_EQ(run(dial), Dial::State::kWelcome);
}

}  // namespace
}  // namespace lyre::nccl_adapter
