#include "tests/sim/sim_link.h"

#include <utility>

namespace lyre::sim {

namespace {

constexpr int64_t kHeaderBytes = 78;  ///< Ethernet, IPv4, TCP and its usual options

}  // namespace

bool SimLink::is_lost(Nanos now) {
  if (now >= config_.cut_from && now < config_.cut_until) return true;
  if (burst_left_ > 0) {
    --burst_left_;
    return true;
  }
  if (!rng_.chance_ppm(config_.loss_ppm)) return false;
  burst_left_ = config_.loss_burst_packets - 1;
  return true;
}

void SimLink::send(Packet packet, Nanos now) {
  ++sent_count_;
  const int64_t bytes = kHeaderBytes + static_cast<int64_t>(packet.bytes.size());
  const Nanos start = later(free_at_, now);
  const int64_t waiting_bytes = (start - now).value * config_.rate_bytes_per_s / 1'000'000'000;
  if (waiting_bytes > config_.queue_bytes || is_lost(now)) {
    ++lost_count_;
    return;
  }
  const bool is_ect = packet.segment.ecn != wire::Ecn::kNotEct;
  if (is_ect && waiting_bytes >= config_.mark_bytes) packet.segment.ecn = wire::Ecn::kCe;
  free_at_ = start + nanos(bytes * 1'000'000'000 / config_.rate_bytes_per_s);
  Nanos at = free_at_ + config_.delay;
  if (rng_.chance_ppm(config_.reorder_ppm)) {
    at +=
        nanos(static_cast<int64_t>(rng_.below(static_cast<uint64_t>(3 * config_.delay.value) + 1)));
  }
  if (rng_.chance_ppm(config_.duplicate_ppm)) {
    deliver(packet, at + nanos(static_cast<int64_t>(rng_.below(100'000))));
  }
  deliver(std::move(packet), at);
}

void SimLink::deliver(Packet packet, Nanos at) {
  uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<uint32_t>(store_.size());
    store_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  store_[index] = std::move(packet);
  arrivals_.push({.at = at, .order = order_++, .index = index});
}

Packet SimLink::take() {
  const uint32_t index = arrivals_.top().index;
  arrivals_.pop();
  free_.push_back(index);
  return std::move(store_[index]);
}

}  // namespace lyre::sim
