#include <algorithm>
#include <chrono>
#include <optional>

#include "tools/lyre/perf/collector.h"
#include "tools/lyre/perf/exchange.h"
#include "tools/lyre/perf/pattern.h"
#include "tools/lyre/perf/sha256.h"

namespace lyre::perf {
namespace {

/// The limits of one step in one direction. They keep the other direction and other streams going.
constexpr int kBlocksPerStepMax = 8;
constexpr uint64_t kBytesPerStepMax = 1u << 20;

/// The two directions carry different bytes.
uint64_t seed_of(const Plan& plan, Direction direction) {
  return direction == Direction::kToServer ? plan.seed : ~plan.seed;
}

void write_totals_frame(Stream& stream, FrameType type, const Totals& totals,
                        std::span<uint8_t> block) {
  encode(FrameHeader{type, kTotalsBytes}, block);
  encode(totals, block.subspan(kFrameHeaderBytes));
  stream.commit_write(kFrameHeaderBytes + kTotalsBytes);
}

/// Data frames until the plan's amount is reached, then the end frame.
class Sender {
 public:
  Sender(const Plan& plan, Direction direction)
      : plan_(plan), seed_(seed_of(plan, direction)), has_data_(plan.sends_to(direction)) {
    if (plan.has_hash) hash_.emplace();
  }

  bool step(Stream& stream, int64_t now) {
    if (start_ns_ == 0) start_ns_ = now;
    for (int blocks = 0; blocks < kBlocksPerStepMax && !is_done_; ++blocks) {
      const bool is_written = has_more(now) ? try_write_data(stream) : try_write_end(stream, now);
      if (!is_written) return blocks > 0;
    }
    return true;
  }
  bool is_done() const { return is_done_; }
  const Totals& totals() const { return totals_; }

 private:
  bool has_more(int64_t now) const {
    if (!has_data_) return false;
    if (plan_.bytes != 0) return totals_.bytes < plan_.bytes;
    return now - start_ns_ < static_cast<int64_t>(plan_.duration_ms) * 1'000'000;
  }
  bool try_write_data(Stream& stream) {
    uint64_t payload = plan_.block_bytes - kFrameHeaderBytes;
    if (plan_.bytes != 0) payload = std::min(payload, plan_.bytes - totals_.bytes);
    const std::span<uint8_t> block = stream.try_begin_write(kFrameHeaderBytes + payload);
    if (block.empty()) return false;
    const std::span<uint8_t> data = block.subspan(kFrameHeaderBytes);
    encode(FrameHeader{FrameType::kData, payload}, block);
    if (!plan_.is_untouched) fill_pattern(data, totals_.bytes, seed_);
    if (hash_) hash_->add(data);
    stream.commit_write(block.size());
    totals_.bytes += payload;
    return true;
  }
  bool try_write_end(Stream& stream, int64_t now) {
    const std::span<uint8_t> block = stream.try_begin_write(kFrameHeaderBytes + kTotalsBytes);
    if (block.empty()) return false;
    totals_.duration_ns = now - start_ns_;
    if (hash_) totals_.hash = hash_->finish();
    write_totals_frame(stream, FrameType::kEnd, totals_, block);
    return is_done_ = true;
  }

  Plan plan_;
  uint64_t seed_;
  bool has_data_;
  bool is_done_ = false;
  int64_t start_ns_ = 0;
  Totals totals_;
  std::optional<Sha256> hash_;
};

/// Parses frames and compares every byte of payload with the pattern.
class Receiver {
 public:
  Receiver(const Plan& plan, Direction direction) : plan_(plan), seed_(seed_of(plan, direction)) {
    if (plan.has_hash) hash_.emplace();
  }

  bool step(Stream& stream, int64_t now) {
    if (start_ns_ == 0) start_ns_ = now;
    uint64_t taken = 0;
    while (taken < kBytesPerStepMax && !has_trailer_) {
      const uint64_t part = data_left_ > 0 ? take_data(stream) : take_frame(stream, now);
      if (part == 0) break;
      taken += part;
    }
    if (taken == 0 && !has_trailer_ && stream.is_at_end()) {
      throw StreamError("the peer closed the connection during the test");
    }
    return taken > 0;
  }
  bool has_end() const { return has_end_; }
  bool has_trailer() const { return has_trailer_; }
  const Totals& totals() const { return totals_; }
  const Totals& peer_sent() const { return peer_sent_; }
  const Totals& peer_received() const { return peer_received_; }

 private:
  uint64_t take_data(Stream& stream) {
    std::span<const uint8_t> bytes = stream.peek();
    bytes = bytes.first(std::min<size_t>(bytes.size(), data_left_));
    if (bytes.empty()) return 0;
    if (!plan_.is_untouched && !is_pattern(bytes, totals_.bytes, seed_)) {
      totals_.is_intact = false;
    }
    if (hash_) hash_->add(bytes);
    totals_.bytes += bytes.size();
    data_left_ -= bytes.size();
    const size_t count = bytes.size();
    stream.consume(count);
    return count;
  }
  uint64_t take_frame(Stream& stream, int64_t now) {
    if (!header_.collect(stream, kFrameHeaderBytes)) return 0;
    const auto header = decode_frame_header(header_.bytes());
    const bool is_due = header && (header->type == FrameType::kTrailer) == has_end_;
    if (!is_due) throw StreamError("the peer sent a frame that is not expected here");
    if (header->type == FrameType::kData) {
      data_left_ = header->bytes;
    } else if (body_.collect(stream, kTotalsBytes)) {
      take_totals(header->type, now);
    } else {
      return 0;
    }
    header_.clear();
    return kFrameHeaderBytes;
  }
  void take_totals(FrameType type, int64_t now) {
    const Totals totals = decode_totals(body_.bytes());
    body_.clear();
    if (type == FrameType::kTrailer) {
      peer_received_ = totals;
      has_trailer_ = true;
      return;
    }
    peer_sent_ = totals;
    totals_.duration_ns = now - start_ns_;
    if (hash_) totals_.hash = hash_->finish();
    has_end_ = true;
  }

  Plan plan_;
  uint64_t seed_;
  int64_t start_ns_ = 0;
  uint64_t data_left_ = 0;
  Collector<kFrameHeaderBytes> header_;
  Collector<kTotalsBytes> body_;
  bool has_end_ = false;
  bool has_trailer_ = false;
  Totals totals_;
  Totals peer_sent_;
  Totals peer_received_;
  std::optional<Sha256> hash_;
};

class Bulk final : public Exchange {
 public:
  Bulk(const Plan& plan, Side side)
      : sender_(plan, side == Side::kClient ? Direction::kToServer : Direction::kToClient),
        receiver_(plan, side == Side::kClient ? Direction::kToClient : Direction::kToServer) {}

  bool step(Stream& stream, int64_t now) override {
    bool has_worked = !sender_.is_done() && sender_.step(stream, now);
    has_worked |= receiver_.step(stream, now);
    if (sender_.is_done() && receiver_.has_end() && !has_sent_trailer_) {
      has_sent_trailer_ = try_send_trailer(stream);
    }
    if (has_sent_trailer_ && receiver_.has_trailer() && !is_done_ && stream.try_flush()) {
      outcome_ = {.sent = sender_.totals(),
                  .received = receiver_.totals(),
                  .peer_sent = receiver_.peer_sent(),
                  .peer_received = receiver_.peer_received(),
                  .round_trips_ns = {}};
      is_done_ = has_worked = true;
    }
    return has_worked;
  }
  bool is_done() const override { return is_done_; }
  Progress progress() const override {
    return {.sent_bytes = sender_.totals().bytes, .received_bytes = receiver_.totals().bytes};
  }
  const Outcome& outcome() const override { return outcome_; }

 private:
  bool try_send_trailer(Stream& stream) {
    const std::span<uint8_t> block = stream.try_begin_write(kFrameHeaderBytes + kTotalsBytes);
    if (block.empty()) return false;
    write_totals_frame(stream, FrameType::kTrailer, receiver_.totals(), block);
    return true;
  }

  Sender sender_;
  Receiver receiver_;
  bool has_sent_trailer_ = false;
  bool is_done_ = false;
  Outcome outcome_;
};

}  // namespace

std::unique_ptr<Exchange> make_bulk(const Plan& plan, Side side) {
  return std::make_unique<Bulk>(plan, side);
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace lyre::perf
