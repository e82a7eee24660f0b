#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "nccl_adapter/comm/receivers.h"
#include "nccl_adapter/comm/send_comm.h"
#include "nccl_adapter/transport/rails.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

namespace lyre::nccl_adapter {

using nccl_abi::Result;

inline std::vector<uint8_t> numbered(size_t bytes) {
  std::vector<uint8_t> data(bytes);
  std::iota(data.begin(), data.end(), uint8_t{1});
  return data;
}

/// A sending comm on one host and a receiving one on the other, with what lets them meet.
class Comms : public TwoHosts, private CommOwner {
 protected:
  explicit Comms(const adapter_sim::NetworkSettings& settings = {.hosts = 2, .rails = 2},
                 int64_t streams = 2)
      : TwoHosts(settings, streams),
        receivers_(&there(), this),
        acceptor_(Acceptor::open(&there(), &receivers_, &telemetry_)),
        listen_comm_(receivers_.listen(Nonce{9})) {
    there().on_listener = [this] { acceptor_->on_ready(); };
    make_sender();
  }
  ~Comms() override {
    sender_.reset();
    owned_.clear();
    acceptor_.reset();
  }

  /// Of the listen comm.
  Handle handle() {
    return {.address = address_of(there().ports()[0]),
            .port = acceptor_->port(),
            .nonce = Nonce{9},
            .host = "host1"};
  }
  void make_sender() { sender_ = std::make_unique<SendComm>(&here(), Nonce{1}, 0, handle()); }
  /// Its object is gone; the one that takes its place reaches nobody.
  void forget_sender() {
    sender_.reset();
    sender_ = std::make_unique<SendComm>(&here(), Nonce{2}, 0, Handle{});
  }
  void connect() {
    ASSERT_TRUE(works_until([&] {
      if (receiver_ == nullptr) receiver_ = listen_comm_->take();
      return receiver_ != nullptr && sender_->is_connected();
    }));
  }
  bool works_until(const std::function<bool()>& condition, int64_t within_ns = 60 * kSecond) {
    return until(
        [&] {
          if (events_.now_ns() - ticked_ns_ >= kTickNs) {
            const int64_t passed_ns =
                events_.now_ns() - std::exchange(ticked_ns_, events_.now_ns());
            sender_->tick(ticked_ns_);
            for (const auto& comm : owned_) comm->tick(ticked_ns_);
            here().stream_count(0).look(passed_ns);
          }
          return condition();
        },
        within_ns);
  }
  Result finish(Comm& comm, Request* request, int* size = nullptr) {
    int done = 0;
    Result result = Result::kSuccess;
    works_until([&] {
      result = comm.test(request, &done, size);
      return done != 0 || result != Result::kSuccess;
    });
    return result;
  }
  /// A small send, which is done at once; then its memory has other bytes. Returns what was sent.
  std::vector<uint8_t> send_and_overwrite() {
    std::vector<uint8_t> out = numbered(1000);
    const std::vector<uint8_t> sent = out;
    int done = 0;
    EXPECT_EQ(sender_->test(post(*sender_, out), &done, nullptr), Result::kSuccess);
    EXPECT_EQ(done, 1);
    std::fill(out.begin(), out.end(), uint8_t{0xff});
    return sent;
  }
  /// A stream that joins gets the last grant, and there are two.
  void settle() {
    ASSERT_TRUE(works_until([&] { return receiver_->facts().streams.size() == 2; }));
  }
  /// One small message, of which test() says done on both sides.
  void send_and_receive() {
    std::vector<uint8_t> out = numbered(1000);
    std::vector<uint8_t> in(1000);
    Request* receive = post(*receiver_, in);
    EXPECT_EQ(finish(*sender_, post(*sender_, out)), Result::kSuccess);
    EXPECT_EQ(finish(*receiver_, receive), Result::kSuccess);
  }
  bool is_all_placed() const { return sender_->facts().view.requests == 0; }
  Request* post(Comm& comm, std::vector<uint8_t>& data) {
    Request* request = nullptr;
    EXPECT_EQ(comm.post(data.data(), data.size(), nullptr, Operation{}, &request),
              Result::kSuccess);
    return request;
  }

  Telemetry telemetry_{"none", "host1", "sim/1", 1};
  Receivers receivers_;
  std::unique_ptr<Acceptor> acceptor_;
  ListenComm* listen_comm_;
  std::unique_ptr<SendComm> sender_;
  std::vector<std::unique_ptr<Comm>> owned_;
  RecvComm* receiver_ = nullptr;

 private:
  void adopt(std::unique_ptr<Comm> comm) override { owned_.push_back(std::move(comm)); }
  SendComm* find_sender(const Nonce&) override { return nullptr; }

  int64_t ticked_ns_ = 0;
};

}  // namespace lyre::nccl_adapter
