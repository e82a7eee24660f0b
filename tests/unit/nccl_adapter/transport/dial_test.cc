#include "nccl_adapter/transport/dial.h"

#include <gtest/gtest.h>

#include <array>
#include <span>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/transport/address.h"
#include "tests/unit/nccl_adapter/support/connected_hosts.h"

namespace lyre::nccl_adapter {
namespace {

struct DialWaiter final : SessionOwner {
  void on_ready() override {}
};

/// A dial to a program that says what the test wants.
class DialTest : public ConnectedHosts {
 protected:
  DialTest() {
    lyre_addr bound{};
    lyre_listener_addr(listener_, &bound);
    dial_ = std::make_unique<Dial>(make_addr(address_of(here().ports()[0]), 0),
                                   make_addr(address_of(there().ports()[0]), bound.port),
                                   Hello{.host = "host0"}, 20'000, &waiter_);
    EXPECT_EQ(work(10 * kDialNsMax), Dial::State::kPending);
    EXPECT_TRUE(dial_->is_hello_acknowledged());
  }

  /// The end of the dial, or kPending after so long.
  Dial::State work(int64_t within_ns) {
    Dial::State state = Dial::State::kPending;
    until(
        [&] {
          state = dial_->advance(here().context(), events_.now_ns(), deadline_ns_);
          return state != Dial::State::kPending;
        },
        within_ns);
    return state;
  }
  static std::array<uint8_t, kAnswerBytes> answer() {
    std::array<uint8_t, kAnswerBytes> bytes;
    encode(Answer{.host = "host1"}, bytes);
    return bytes;
  }

  const int64_t deadline_ns_ = events_.now_ns() + kDialNsMax;
  DialWaiter waiter_;
  std::unique_ptr<Dial> dial_;
};

TEST_F(DialTest, AnAnswerMayComeLateAndInParts) {
  const std::array<uint8_t, kAnswerBytes> bytes = answer();
  far_.send_small(std::span(bytes).first(100));
  EXPECT_EQ(work(kSecond), Dial::State::kPending);
  far_.send_small(std::span(bytes).subspan(100));
  EXPECT_EQ(work(kSecond), Dial::State::kWelcome);
}

TEST_F(DialTest, TheFirstWrongByteOfAnAnswerEndsIt) {
  far_.send_small(std::array<uint8_t, 1>{'2'});
  EXPECT_EQ(work(kSecond), Dial::State::kFailed);
  EXPECT_EQ(dial_->error(), LYRE_E_INVALID);
  EXPECT_EQ(dial_->why(), "what answers there is no Lyre plugin");
}

TEST_F(DialTest, AResetAfterALongWaitIsNoTimeout) {
  far_.abort();
  EXPECT_EQ(work(kSecond), Dial::State::kFailed);
  EXPECT_EQ(dial_->error(), LYRE_E_RESET);
}

}  // namespace
}  // namespace lyre::nccl_adapter
