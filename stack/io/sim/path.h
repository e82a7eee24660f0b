#pragma once

#include <array>
#include <cstdint>

#include "stack/base/nanos.h"
#include "stack/base/rng.h"

namespace lyre::io::sim {

/// Faults, delay and rate of one direction. Units of probabilities: millionths.
struct PathOptions {
  Nanos delay = nanos(0);
  uint64_t rate_bytes_per_s = 0;  ///< 0: unlimited
  uint64_t queue_bytes = 0;       ///< with more waiting for the rate, frames are lost; 0: unlimited
  uint64_t mark_bytes = 0;        ///< CE when more than this waits; 0: never
  uint32_t loss_ppm = 0;
  /// Gilbert-Elliott model: the path is in a good or a bad state; loss_ppm holds in the good one.
  uint32_t bad_enter_ppm = 0;
  uint32_t bad_leave_ppm = 0;
  uint32_t bad_loss_ppm = 1'000'000;
  uint32_t duplicate_ppm = 0;
  uint32_t corrupt_ppm = 0;  ///< one bit after the Ethernet header is flipped
  uint32_t reorder_ppm = 0;  ///< delayed by up to reorder_delay more, so that later frames overtake
  Nanos reorder_delay = micros(100);
};

struct PathCounters {
  uint64_t carried = 0;     ///< offered frames, whatever the outcome
  uint64_t lost = 0;        ///< by random loss
  uint64_t overflowed = 0;  ///< for want of room in the queue
  uint64_t duplicated = 0;
  uint64_t corrupted = 0;
  uint64_t reordered = 0;
  uint64_t marked = 0;
};

/// The outcome for one frame.
struct Fate {
  static constexpr uint32_t kNoBit = UINT32_MAX;
  uint32_t copies = 0;  ///< frames that arrive: 0, 1 or 2
  std::array<Nanos, 2> due{};
  uint32_t corrupt_bit = kNoBit;  ///< counted from the first bit of the frame
  bool is_marked = false;
};

/// Decides the outcome for each frame, as a function of the options, the seed and the frames
/// before, so that a run can be repeated. Thread: one.
class Path {
 public:
  Path(const PathOptions& options, uint64_t seed) : options_(options), rng_(seed) {}

  /// Units: bytes. `now` never decreases between calls.
  Fate on_frame(uint32_t length_bytes, Nanos now);
  /// A frame that is subject to delay and rate only.
  Fate pass(uint32_t length_bytes, Nanos now);
  /// A frame that is sent while the link is down.
  Fate lose();

  void set_options(const PathOptions& options) { options_ = options; }
  const PathOptions& options() const { return options_; }
  const PathCounters& counters() const { return counters_; }

 private:
  uint64_t waiting_bytes(Nanos now) const;
  Nanos serialise(uint32_t length_bytes, Nanos now);
  bool is_lost();
  Nanos due_after(Nanos sent_at);

  PathOptions options_;
  Rng rng_;
  PathCounters counters_;
  Nanos free_at_{0};  ///< when the last bit of the newest frame has been sent
  bool is_bad_ = false;
};

}  // namespace lyre::io::sim
