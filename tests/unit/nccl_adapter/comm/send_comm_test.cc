#include "nccl_adapter/comm/send_comm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nccl_adapter/protocol/frame.h"
#include "nccl_adapter/protocol/queue_pair_terms.h"
#include "nccl_adapter/transport/acceptor.h"
#include "nccl_adapter/transport/rails.h"
#include "tests/sim/adapter/lyre_api.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

// A sending comm, and a peer that answers what the test wants.
namespace lyre::nccl_adapter {
namespace {

class SendCommAndPeer : public TwoHosts, private HelloReceiver {
 protected:
  SendCommAndPeer()
      : TwoHosts({.hosts = 2, .rails = 2}, 1),
        acceptor_(Acceptor::open(&there(), this, &telemetry_)) {
    there().on_listener = [this] { acceptor_->on_ready(); };
    const Handle handle{.address = address_of(there().ports()[0]),
                        .port = acceptor_->port(),
                        .nonce = Nonce{9},
                        .host = "host1"};
    comm_ = std::make_unique<SendComm>(&here(), Nonce{1}, 0, handle);
  }
  ~SendCommAndPeer() override {
    comm_.reset();
    streams_.clear();
    acceptor_.reset();
  }

  void connect(uint16_t version) {
    version_ = version;
    ASSERT_TRUE(until([&] {
      comm_->tick(events_.now_ns());
      return comm_->is_connected() || comm_->has_failed();
    }));
  }
  void say(const FrameHeader& header, std::span<const uint8_t> payload) {
    std::vector<uint8_t> bytes(kFrameHeaderBytes + payload.size());
    encode(header, std::span(bytes).first<kFrameHeaderBytes>());
    std::ranges::copy(payload, bytes.begin() + kFrameHeaderBytes);
    for (const uint8_t& byte : bytes) streams_.front().send_small({&byte, 1});
    pass(20 * kMs);
    comm_->pump();
  }
  Request* post_small() {
    Request* request = nullptr;
    EXPECT_EQ(comm_->post(small_.data(), small_.size(), nullptr, Operation{}, &request),
              nccl_abi::Result::kSuccess);
    return request;
  }
  static std::vector<uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

  uint16_t version_ = kProtocolVersionMax;
  std::vector<uint8_t> small_ = std::vector<uint8_t>(100);
  std::vector<Stream> streams_;
  Telemetry telemetry_{"none", "host1", "sim/1", 1};
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<SendComm> comm_;

 private:
  Decision on_hello(const Hello&, const std::string&, Stream* stream,
                    std::span<const uint8_t>) override {
    streams_.push_back(std::move(*stream));
    streams_.back().set_owner(nullptr);
    std::vector<uint8_t> answer(kAnswerBytes);
    encode(Answer{.version = version_, .host = "host1"},
           std::span<uint8_t, kAnswerBytes>(answer.data(), kAnswerBytes));
    streams_.back().send_small(answer);
    return {};
  }
};

TEST_F(SendCommAndPeer, SpeaksTheVersionThatThePeerChose) {
  connect(kProtocolVersionMin);
  EXPECT_TRUE(comm_->is_connected());
}

TEST_F(SendCommAndPeer, RefusesAVersionThatItDoesNotSpeak) {
  connect(kProtocolVersionMax + 1);
  EXPECT_FALSE(comm_->is_connected());
  EXPECT_EQ(comm_->failure().result, nccl_abi::Result::kInvalidUsage);
}

// An older receiver forgets at a bye what it has no receive for.
TEST_F(SendCommAndPeer, WaitsForTheGrantOfASmallSendWhereThePeerDoesNotCountThem) {
  connect(kCountedByeVersion - 1);
  Request* send = post_small();
  pass(20 * kMs);
  comm_->pump();
  EXPECT_FALSE(send->is_done());
  EXPECT_FALSE(comm_->should_wait_to_close());
  say({.type = FrameType::kGrant, .message = 1, .offset = 1}, {});
  EXPECT_TRUE(send->is_done());
}

TEST_F(SendCommAndPeer, DoesNotWaitForItWhereThePeerCountsThem) {
  connect(kCountedByeVersion);
  EXPECT_TRUE(post_small()->is_done());
}

TEST_F(SendCommAndPeer, SaysWhyThePeerGaveUp) {
  connect(kProtocolVersionMax);
  const std::vector<uint8_t> why = bytes_of("too\nlarge");
  say({.type = FrameType::kFail, .bytes = static_cast<uint32_t>(why.size())}, why);
  EXPECT_EQ(comm_->failure().why, "the peer gave up: too?large");
}

TEST_F(SendCommAndPeer, TakesALateDeclineAndGoesOn) {
  connect(kProtocolVersionMax);
  const std::vector<uint8_t> why = bytes_of("the device is gone");
  const FrameHeader decline{.type = FrameType::kDecline,
                            .bytes = static_cast<uint32_t>(why.size()),
                            .message = 64,
                            .offset = 1};
  say(decline, why);
  say({.type = FrameType::kPing}, {});
  EXPECT_FALSE(comm_->has_failed()) << comm_->failure().why;
}

TEST_F(SendCommAndPeer, TakesNoFramesOfALaterVersion) {
  connect(2);
  say({.type = FrameType::kDecline, .message = 64, .offset = 1}, {});
  EXPECT_EQ(comm_->failure().why, "the peer broke the protocol");
}

// The daemon took back the memory of this process while it was read from.
TEST_F(SendCommAndPeer, DoesNotBlameThePeerForMemoryThatWasTakenBack) {
  connect(kProtocolVersionMax);
  here().context()->failure_at_check = LYRE_E_EXPELLED;
  streams_.front().send_small(std::vector<uint8_t>(kFrameHeaderBytes, 0xff));
  pass(20 * kMs);
  comm_->pump();
  EXPECT_FALSE(comm_->has_failed()) << comm_->failure().why;
  EXPECT_FALSE(here().is_attached());
}

TEST_F(SendCommAndPeer, TakesNoAcceptOfWhatItDidNotOffer) {
  connect(kProtocolVersionMax);
  say({.type = FrameType::kAccept, .bytes = kQueuePairTermsBytes, .message = 64, .offset = 1},
      std::vector<uint8_t>(kQueuePairTermsBytes));
  EXPECT_EQ(comm_->failure().why, "the peer broke the protocol");
}

}  // namespace
}  // namespace lyre::nccl_adapter
