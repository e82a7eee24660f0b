#include "stack/io/sim/path.h"

namespace lyre::io::sim {
namespace {

constexpr uint64_t kNanosPerSecond = 1'000'000'000;
constexpr uint32_t kEthernetBits = 14 * 8;

}  // namespace

Fate Path::on_frame(uint32_t length_bytes, Nanos now) {
  ++counters_.carried;
  Fate fate;
  // Every frame makes the same draws, whatever its outcome, so that one option does not shift the
  // random sequence of the others.
  const bool is_lost_here = is_lost();
  const bool is_twofold = rng_.chance_ppm(options_.duplicate_ppm);
  const bool is_corrupt = rng_.chance_ppm(options_.corrupt_ppm);
  const uint64_t waiting = waiting_bytes(now);
  if (options_.queue_bytes > 0 && waiting + length_bytes > options_.queue_bytes) {
    ++counters_.overflowed;
    return fate;
  }
  const Nanos sent_at = serialise(length_bytes, now);
  if (is_lost_here) {
    ++counters_.lost;
    return fate;
  }
  fate.copies = is_twofold ? 2 : 1;
  if (is_twofold) ++counters_.duplicated;
  for (uint32_t i = 0; i < fate.copies; ++i) fate.due[i] = due_after(sent_at);
  const uint32_t bits = length_bytes * 8;
  if (is_corrupt && bits > kEthernetBits) {
    ++counters_.corrupted;
    fate.corrupt_bit = kEthernetBits + static_cast<uint32_t>(rng_.below(bits - kEthernetBits));
  }
  fate.is_marked = options_.mark_bytes > 0 && waiting > options_.mark_bytes;
  if (fate.is_marked) ++counters_.marked;
  return fate;
}

Fate Path::pass(uint32_t length_bytes, Nanos now) {
  ++counters_.carried;
  Fate fate;
  fate.copies = 1;
  fate.due[0] = serialise(length_bytes, now) + options_.delay;
  return fate;
}

Fate Path::lose() {
  ++counters_.carried;
  ++counters_.lost;
  return {};
}

uint64_t Path::waiting_bytes(Nanos now) const {
  if (options_.rate_bytes_per_s == 0 || free_at_ <= now) return 0;
  const auto wait = static_cast<uint64_t>((free_at_ - now).value);
  return wait / 1000 * options_.rate_bytes_per_s / (kNanosPerSecond / 1000);
}

Nanos Path::serialise(uint32_t length_bytes, Nanos now) {
  free_at_ = later(free_at_, now);
  if (options_.rate_bytes_per_s > 0) {
    free_at_ +=
        nanos(static_cast<int64_t>(length_bytes * kNanosPerSecond / options_.rate_bytes_per_s));
  }
  return free_at_;
}

bool Path::is_lost() {
  if (options_.bad_enter_ppm > 0 || is_bad_) {
    is_bad_ = is_bad_ ? !rng_.chance_ppm(options_.bad_leave_ppm)
                      : rng_.chance_ppm(options_.bad_enter_ppm);
  }
  return rng_.chance_ppm(is_bad_ ? options_.bad_loss_ppm : options_.loss_ppm);
}

Nanos Path::due_after(Nanos sent_at) {
  const Nanos due = sent_at + options_.delay;
  if (!rng_.chance_ppm(options_.reorder_ppm) || options_.reorder_delay.value <= 0) return due;
  ++counters_.reordered;
  const auto bound = static_cast<uint64_t>(options_.reorder_delay.value);
  return due + nanos(1 + static_cast<int64_t>(rng_.below(bound)));
}

}  // namespace lyre::io::sim
