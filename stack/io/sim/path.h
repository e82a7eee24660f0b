#pragma once

#include <array>
#include <cstdint>

#include "stack/base/nanos.h"
#include "stack/base/rng.h"

namespace lyre::io::sim {

/// What one direction of a wire does to frames. Chances are in millionths.
struct PathOptions {
  Nanos delay = nanos(0);
  uint64_t rate_bytes_per_s = 0;  ///< 0: unlimited
  uint64_t queue_bytes = 0;       ///< more than this waiting for the rate is lost; 0: unlimited
  uint64_t mark_bytes = 0;        ///< CE where more than this waits; 0: never
  uint32_t loss_ppm = 0;
  /// Gilbert and Elliott: a frame finds the path good or bad, and loss_ppm holds while it is good.
  uint32_t bad_enter_ppm = 0;
  uint32_t bad_leave_ppm = 0;
  uint32_t bad_loss_ppm = 1'000'000;
  uint32_t duplicate_ppm = 0;
  uint32_t corrupt_ppm = 0;  ///< one bit behind the Ethernet header is flipped
  uint32_t reorder_ppm = 0;  ///< delayed by up to reorder_delay more, so that later ones pass
  Nanos reorder_delay = micros(100);
};

struct PathCounters {
  uint64_t carried = 0;     ///< offered, whatever became of them
  uint64_t lost = 0;        ///< by chance
  uint64_t overflowed = 0;  ///< for want of room in the queue
  uint64_t duplicated = 0;
  uint64_t corrupted = 0;
  uint64_t reordered = 0;
  uint64_t marked = 0;
};

/// What becomes of one frame.
struct Fate {
  static constexpr uint32_t kNoBit = UINT32_MAX;
  uint32_t copies = 0;  ///< how many arrive: 0, 1 or 2
  std::array<Nanos, 2> due{};
  uint32_t corrupt_bit = kNoBit;  ///< counted from the first bit of the frame
  bool is_marked = false;
};

/// Decides what becomes of frames: a function of the options, the seed and what was offered before,
/// so that a run can be repeated. Thread: one.
class Path {
 public:
  Path(const PathOptions& options, uint64_t seed) : options_(options), rng_(seed) {}

  /// Units: bytes. Time does not go back from one call to the next.
  Fate on_frame(uint32_t length_bytes, Nanos now);
  /// A frame that is only held up by delay and rate, and lost by nothing.
  Fate pass(uint32_t length_bytes, Nanos now);
  /// A frame that meets a cable which is out.
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
  Nanos free_at_{0};  ///< when the last bit of the newest frame is out
  bool is_bad_ = false;
};

}  // namespace lyre::io::sim
