#include "nccl_adapter/core/lane.h"

#include <algorithm>
#include <utility>

#include "nccl_adapter/core/comm.h"

namespace lyre::nccl_adapter {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

uint64_t per_second(uint64_t bytes, int64_t ns) {
  return static_cast<uint64_t>(static_cast<double>(bytes) * kNsPerSecond /
                               static_cast<double>(std::max<int64_t>(ns, 1)));
}

}  // namespace

void Lane::on_ready() { comm->pump(); }

void Lane::attach(Stream next, uint32_t number, int64_t now_ns) {
  drop();
  stream = std::move(next);
  stream.set_owner(this);
  incarnation = number;
  ++attached;
  failures = 0;
  is_unwanted = false;
  moved_ns = looked_ns = now_ns;
}

void Lane::drop() {
  stream.abort();
  reader = {};
  fail_text.clear();
  is_heard = false;
  was_idle = true;
  acked_bytes = 0;
  rate_bytes_per_s = judged_bytes_per_s = 0;
  rtt_ns = probe_ns = busy_ns = 0;
  busy_bytes = 0;
}

void Lane::begin_probe(int64_t now_ns) {
  if (probe_ns == 0 && stream.unacked_bytes() == 0) probe_ns = now_ns;
}

void Lane::end_probe(int64_t now_ns) {
  if (probe_ns == 0 || stream.unacked_bytes() > 0) return;
  const int64_t sample_ns = std::max<int64_t>(now_ns - probe_ns, 1);
  // Forgets slowly, so that a path that became longer is believed in the end.
  rtt_ns = rtt_ns == 0 ? sample_ns : std::min(sample_ns, rtt_ns + rtt_ns / 16);
  probe_ns = 0;
}

bool Lane::look(int64_t now_ns) {
  const uint64_t unacked = stream.unacked_bytes();
  const uint64_t acked = stream.sent_bytes() - unacked - acked_bytes;
  const int64_t passed_ns = now_ns - looked_ns;
  const bool moved = acked > 0 || is_heard;
  if (moved || (was_idle && unacked > 0)) moved_ns = now_ns;
  if (acked > 0) {
    const uint64_t faded = rate_bytes_per_s - rate_bytes_per_s / 16;
    rate_bytes_per_s = std::max(per_second(acked, passed_ns), faded);
  }
  if (unacked > 0 && !was_idle) judge(acked, passed_ns);
  acked_bytes += acked;
  was_idle = unacked == 0;
  looked_ns = now_ns;
  is_heard = false;
  return moved;
}

void Lane::judge(uint64_t acked, int64_t passed_ns) {
  busy_ns += passed_ns;
  busy_bytes += acked;
  if (busy_ns < kSlowBusyNs) return;
  judged_bytes_per_s = per_second(busy_bytes, busy_ns);
  busy_ns = 0;
  busy_bytes = 0;
}

bool Lane::is_stalled(int64_t now_ns) const {
  return is_up() && stream.unacked_bytes() > 0 && now_ns - moved_ns >= kStallNs;
}

uint64_t Lane::room_bytes() const {
  if (rate_bytes_per_s == 0 || rtt_ns == 0) return kStreamUnackedBytesMax;
  const double in_flight = static_cast<double>(rate_bytes_per_s) * static_cast<double>(rtt_ns) /
                           static_cast<double>(kNsPerSecond);
  const double bytes = 2 * in_flight + static_cast<double>(kStreamUnackedBytesMin);
  return static_cast<uint64_t>(std::min(bytes, static_cast<double>(kStreamUnackedBytesMax)));
}

}  // namespace lyre::nccl_adapter
