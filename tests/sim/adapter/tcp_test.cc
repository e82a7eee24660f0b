#include "tests/sim/adapter/tcp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "nccl_adapter/transport/rails.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

// Two ends of one connection, each with a client.
namespace lyre::adapter_sim {
namespace {

using nccl_adapter::Address;
using nccl_adapter::address_of;
using nccl_adapter::Io;
using nccl_adapter::Stream;
using nccl_adapter::TwoHosts;

class SimulatedTcp : public TwoHosts {
 protected:
  explicit SimulatedTcp(const NetworkSettings& settings = {.hosts = 2}) : TwoHosts(settings) {
    const lyre_addr any{};
    EXPECT_EQ(lyre_listen(there().context(), &any, 8, &listener_), 0);
    there().on_listener = [this] {
      lyre_session* session = nullptr;
      while (lyre_accept(listener_, &session) == 0) far_ = Stream(session);
    };
    lyre_addr remote{};
    lyre_listener_addr(listener_, &remote);
    lyre_addr local{};
    const Address from = address_of(here().ports()[0]);
    const Address to = address_of(there().ports()[0]);
    std::copy(from.begin(), from.end(), std::begin(local.address));
    std::copy(to.begin(), to.end(), std::begin(remote.address));
    lyre_session* session = nullptr;
    while (lyre_connect(here().context(), &local, &remote, &session) == LYRE_E_AGAIN) pass(kMs);
    near_ = Stream(session);
    EXPECT_TRUE(until([&] { return near_.state() == LYRE_OPEN && far_.is_open(); }));
  }
  ~SimulatedTcp() override {
    near_.abort();
    far_.abort();
    lyre_close_listener(listener_);
  }

  /// All that came, as far as `far_` has it.
  void read(std::vector<uint8_t>* into) {
    std::span<const uint8_t> bytes;
    while (far_.peek(&bytes) == Io::kOk) {
      into->insert(into->end(), bytes.begin(), bytes.end());
      far_.consume(bytes.size());
    }
    far_.release();
  }
  Connection& connection() { return *network_.connections().front(); }

  lyre_listener* listener_ = nullptr;
  Stream near_;
  Stream far_;
};

class LossyTcp : public SimulatedTcp {
 protected:
  LossyTcp() : SimulatedTcp({.hosts = 2, .segment_bytes_max = 1'460, .loss_ppm = 100'000}) {}
};

TEST_F(LossyTcp, BytesArriveOnceAndInOrderAllTheSame) {
  std::vector<uint8_t> out(100'000);
  std::iota(out.begin(), out.end(), uint8_t{1});
  near_.send_small(out);
  std::vector<uint8_t> in;
  EXPECT_TRUE(until(
      [&] {
        near_.flush();
        read(&in);
        return in.size() >= out.size() && near_.unacked_bytes() == 0;
      },
      3600 * kSecond));
  EXPECT_EQ(in, out);
}

TEST_F(SimulatedTcp, AReaderThatDoesNotReadClosesTheWindow) {
  const std::vector<uint8_t> out(4 << 20);
  near_.send_small(out);
  pass(10 * kSecond);
  const End& reader = connection().ends[1];
  EXPECT_EQ(reader.readable_bytes + reader.held_bytes, network_.settings().pool_bytes);
  EXPECT_EQ(near_.error(), 0) << "a window that is answered for is no silence";
  std::vector<uint8_t> in;
  EXPECT_TRUE(until([&] {
    near_.flush();
    read(&in);
    return in.size() == out.size();
  }));
}

TEST_F(SimulatedTcp, AnEndWithoutAnAnswerIsOverAfterTheUserTimeout) {
  network_.wires().set_rail({1, 0}, false);
  const uint8_t byte = 1;
  near_.send_small({&byte, 1});
  pass(network_.settings().user_timeout_ns - kSecond);
  EXPECT_EQ(near_.state(), LYRE_OPEN);
  pass(2 * kSecond);
  EXPECT_EQ(near_.state(), LYRE_ENDED);
  EXPECT_EQ(near_.error(), LYRE_E_TIMEDOUT);
}

TEST_F(SimulatedTcp, AResetEndsBothEnds) {
  network_.tcp().reset(connection());
  EXPECT_EQ(near_.error(), LYRE_E_RESET);
  EXPECT_EQ(far_.error(), LYRE_E_RESET);
}

TEST_F(SimulatedTcp, ADaemonThatStopsResets) {
  network_.stop_daemon(1);
  pass(kMs);
  EXPECT_EQ(near_.error(), LYRE_E_RESET);
}

TEST_F(SimulatedTcp, ADaemonThatDiesSaysNothing) {
  network_.kill_daemon(1);
  pass(kSecond);
  EXPECT_EQ(near_.state(), LYRE_OPEN);
}

TEST_F(SimulatedTcp, CloseWithUnreadBytesResets) {  // RFC 2525 2.17
  const uint8_t byte = 1;
  near_.send_small({&byte, 1});
  pass(kMs);
  far_.close();
  pass(kMs);
  EXPECT_EQ(near_.error(), LYRE_E_RESET);
}

}  // namespace
}  // namespace lyre::adapter_sim
