#include <algorithm>
#include <vector>

#include "tools/lyre/perf/exchange.h"
#include "tools/lyre/perf/pattern.h"

namespace lyre::perf {
namespace {

/// Collects a message that may arrive in pieces. One that arrives whole is used in place.
class Message {
 public:
  explicit Message(size_t bytes) : bytes_(bytes) {}

  /// Returns the whole message, or an empty span while it is incomplete. Valid until consume().
  std::span<const uint8_t> look(Stream& stream) {
    if (parts_.size() == bytes_) return parts_;
    std::span<const uint8_t> next = stream.peek();
    if (parts_.empty() && next.size() >= bytes_) return next.first(bytes_);
    while (!next.empty() && parts_.size() < bytes_) {
      const size_t count = std::min(next.size(), bytes_ - parts_.size());
      parts_.insert(parts_.end(), next.begin(), next.begin() + static_cast<ptrdiff_t>(count));
      stream.consume(count);
      if (parts_.size() < bytes_) next = stream.peek();
    }
    if (parts_.size() == bytes_) return parts_;
    return {};
  }
  void consume(Stream& stream) {
    if (parts_.empty()) stream.consume(bytes_);
    parts_.clear();
  }

 private:
  size_t bytes_;
  std::vector<uint8_t> parts_;
};

void check_not_over(const Stream& stream) {
  if (stream.is_at_end()) throw StreamError("the peer closed the connection during the test");
}

class PingPongClient final : public Exchange {
 public:
  explicit PingPongClient(const Plan& plan) : plan_(plan), message_(plan.message_bytes) {
    outcome_.round_trips_ns.reserve(std::min<uint64_t>(plan.count, 1u << 20));
  }

  bool step(Stream& stream, int64_t now) override {
    if (is_done()) return false;
    if (sent_ns_ == 0 && (now < rest_until_ns_ || !try_send(stream))) return false;
    const std::span<const uint8_t> echo = message_.look(stream);
    if (echo.empty()) {
      check_not_over(stream);
      return false;
    }
    take(echo, stream);
    if (plan_.interval_ns != 0) {
      rest_until_ns_ = now_ns() + plan_.interval_ns;
    } else if (!is_done()) {
      // Not in the next pass over all sessions: the time until then is part of no round trip.
      try_send(stream);
    }
    return true;
  }
  int64_t due_ns() const override { return sent_ns_ == 0 && !is_done() ? rest_until_ns_ : 0; }
  bool is_done() const override { return outcome_.round_trips_ns.size() == plan_.count; }
  Progress progress() const override {
    return {outcome_.sent.bytes, outcome_.received.bytes, outcome_.round_trips_ns.size()};
  }
  const Outcome& outcome() const override { return outcome_; }

 private:
  void take(std::span<const uint8_t> echo, Stream& stream) {
    outcome_.round_trips_ns.push_back(now_ns() - sent_ns_);
    if (!plan_.is_untouched && !is_pattern(echo, outcome_.received.bytes, plan_.seed)) {
      outcome_.received.is_intact = false;
    }
    message_.consume(stream);
    outcome_.received.bytes += plan_.message_bytes;
    outcome_.peer_sent.bytes = outcome_.received.bytes;
    outcome_.peer_received.bytes = outcome_.sent.bytes;
    sent_ns_ = 0;
  }
  bool try_send(Stream& stream) {
    const std::span<uint8_t> block = stream.try_begin_write(plan_.message_bytes);
    if (block.empty()) return false;
    sent_ns_ = now_ns();
    if (!plan_.is_untouched) fill_pattern(block, outcome_.sent.bytes, plan_.seed);
    stream.commit_write(block.size());
    outcome_.sent.bytes += block.size();
    return true;
  }

  Plan plan_;
  Message message_;
  int64_t sent_ns_ = 0;
  int64_t rest_until_ns_ = 0;
  Outcome outcome_;
};

class PingPongServer final : public Exchange {
 public:
  explicit PingPongServer(const Plan& plan) : plan_(plan), message_(plan.message_bytes) {}

  bool step(Stream& stream, int64_t now) override {
    if (start_ns_ == 0) start_ns_ = now;
    if (is_done() || !stream.try_flush()) return false;
    const std::span<const uint8_t> message = message_.look(stream);
    if (message.empty()) {
      check_not_over(stream);
      return false;
    }
    const std::span<uint8_t> block = stream.try_begin_write(plan_.message_bytes);
    if (block.empty()) return false;
    std::copy(message.begin(), message.end(), block.begin());
    stream.commit_write(block.size());
    message_.consume(stream);
    ++echoes_;
    outcome_.sent.bytes = outcome_.received.bytes = echoes_ * plan_.message_bytes;
    outcome_.peer_sent = outcome_.peer_received = outcome_.sent;
    outcome_.sent.duration_ns = outcome_.received.duration_ns = now - start_ns_;
    return true;
  }
  bool is_done() const override { return echoes_ == plan_.count; }
  Progress progress() const override { return {outcome_.sent.bytes, outcome_.received.bytes, 0}; }
  const Outcome& outcome() const override { return outcome_; }

 private:
  Plan plan_;
  Message message_;
  uint64_t echoes_ = 0;
  int64_t start_ns_ = 0;
  Outcome outcome_;
};

}  // namespace

std::unique_ptr<Exchange> make_ping_pong(const Plan& plan, Side side) {
  if (side == Side::kClient) return std::make_unique<PingPongClient>(plan);
  return std::make_unique<PingPongServer>(plan);
}

}  // namespace lyre::perf
