#include "nccl_adapter/transport/lane.h"

#include <algorithm>
#include <utility>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {
namespace {

constexpr double kUsPerSecond = 1e6;
/// A busy stream that became slower loses this part of its rate with each look.
constexpr uint64_t kRateFades = 4;

uint64_t per_second(uint64_t bytes, int64_t ns) {
  return static_cast<uint64_t>(static_cast<double>(bytes) * kNsPerSecond /
                               static_cast<double>(std::max<int64_t>(ns, 1)));
}

}  // namespace

void Lane::attach(std::unique_ptr<Transport> next, uint32_t number, int64_t now_ns) {
  drop();
  transport = std::move(next);
  transport->set_owner(this);
  incarnation = number;
  if (attached++ > 0 && is_missed) ++remade;
  failures = 0;
  is_unwanted = is_refused = false;
  is_missed = true;
  told_lost = {};
  reader.source = transport.get();
  reader.is_of_queue_pair = is_for_queue_pairs;
  attached_ns = moved_ns = answered_ns = looked_ns = now_ns;
}

void Lane::drop() {
  copied_before_bytes = copied_bytes();
  transport.reset();
  reader = {};
  has_received = is_window_closed = false;
  acked_bytes = unacked_bytes = gained_bytes = backlog_bytes = 0;
  rate_bytes_per_s = 0;
}

void Lane::close() {
  transport->close();
  copied_before_bytes = copied_bytes();
  reader.source = nullptr;
  transport.reset();
}

bool Lane::look(int64_t now_ns) {
  const uint64_t unacked = transport->unacked_bytes();
  const uint64_t acked = transport->sent_bytes() - unacked - acked_bytes;
  const int64_t passed_ns = now_ns - looked_ns;
  const bool moved = acked > 0 || has_received;
  if (moved) answered_ns = now_ns;
  is_window_closed = transport->is_window_closed();
  if (moved || is_window_closed || (unacked_bytes == 0 && unacked > 0)) moved_ns = now_ns;
  note_rate(per_second(acked, passed_ns), unacked_bytes > 0 || unacked > 0);
  backlog_bytes = unacked_bytes;
  acked_bytes += acked;
  gained_bytes = acked;
  unacked_bytes = unacked;
  looked_ns = now_ns;
  has_received = false;
  return moved;
}

// What a caller sends from time to time is less than the path carries.
void Lane::note_rate(uint64_t bytes_per_s, bool is_busy) {
  if (bytes_per_s == 0 || (rate_bytes_per_s == 0 && !is_busy)) return;
  const uint64_t faded = is_busy ? rate_bytes_per_s / kRateFades : 0;
  rate_bytes_per_s = std::max(bytes_per_s, rate_bytes_per_s - faded);
}

int64_t Lane::stall_ns() const { return std::max(kStallNs, transport->patience_ns()); }

bool Lane::is_stalled(int64_t now_ns) const {
  return is_up() && transport->unacked_bytes() > 0 && now_ns - moved_ns >= stall_ns();
}

void Lane::want_again() {
  if (!std::exchange(is_unwanted, false)) return;
  redial_ns = 0;
  if (is_up()) pair = attached_pair;
}

void Lane::forgive(int64_t now_ns, bool is_at_home) {
  if (is_at_home && now_ns - attached_ns > kReturnNsMax) returns = 0;
  if (now_ns - replace_ns > kSlowForgetNs) replaced = slow_again = 0;
}

uint64_t Lane::room_bytes(uint64_t piece_bytes, bool is_alone) const {
  const auto rate = static_cast<double>(rate_bytes_per_s);
  const uint64_t least = 2 * std::max<uint64_t>(piece_bytes, kZeroCopyBytesMin);
  const int64_t queue_ns = is_alone ? kStreamQueueAloneNs : kStreamQueueNs;
  const uint64_t queue_most = is_alone ? kStreamUnackedBytesMax : kStreamQueueBytesMax;
  const double in_flight = 2 * rate * static_cast<double>(transport->rtt_min_us()) / kUsPerSecond;
  const double queued =
      std::clamp(rate * static_cast<double>(queue_ns) / kNsPerSecond, static_cast<double>(least),
                 static_cast<double>(std::max(queue_most, least)));
  return static_cast<uint64_t>(
      std::min(in_flight + queued, static_cast<double>(kStreamUnackedBytesMax)));
}

}  // namespace lyre::nccl_adapter
