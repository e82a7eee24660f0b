#pragma once

#include <cstddef>
#include <cstdint>

namespace lyre::nccl_adapter {

/// Finds by trial how many streams a busy connection needs: a network may give each flow only a
/// part of what the port carries. The number doubles while the connection becomes faster with it.
/// When it does not, a connection that grew more than once keeps what it has: its network limits
/// flows, and more streams than it needs take over what other connections of the port leave while
/// they pause. Another one tries half as many streams more, then a quarter, and so on, until not
/// even one more helps. An added stream helps when it brings at least 45 % of what each of the
/// others carries: one that only takes its share of a full port from other connections brings a
/// third at most. After a pause all that is forgotten.
/// Thread: under the instance's lock. It knows no clock and no stream.
class StreamCount {
 public:
  /// What happened since the last look.
  struct Look {
    int64_t passed_ns = 0;
    uint64_t acked_bytes = 0;
    bool is_busy = false;  ///< there was data to send all the time
    size_t up = 0;         ///< streams that are there, of those that are wanted
  };

  /// Begins with `start`, and wants no more than `most`.
  StreamCount(size_t start, size_t most) : start_(start), most_(most) { forget(); }

  /// The streams that the connection should have now.
  size_t wanted() const { return wanted_; }
  /// Nothing is tried until the connection pauses.
  bool is_settled() const { return phase_ == Phase::kSettled; }
  void look(const Look& look);

 private:
  enum class Phase { kMeasure, kTry, kSettled };

  void forget();
  void restart_measuring();
  void try_more();
  void judge(double bytes_per_s);

  size_t start_;
  size_t most_;
  Phase phase_ = Phase::kMeasure;
  size_t count_ = 0;   ///< known to help
  size_t wanted_ = 0;  ///< count_, and those on trial or to spare
  size_t step_ = 0;    ///< the next trial adds so many
  bool is_doubling_ = true;
  uint32_t grown_ = 0;      ///< how often more streams helped
  double bytes_per_s_ = 0;  ///< of count_ streams
  int64_t waited_ns_ = 0;   ///< for the streams on trial
  int64_t busy_ns_ = 0;     ///< of this measurement
  uint64_t bytes_ = 0;
  int64_t idle_ns_ = 0;
};

}  // namespace lyre::nccl_adapter
