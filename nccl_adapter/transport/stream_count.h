#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

/// Finds by trial how many streams each busy connection of a port needs: a network may give each
/// flow only a part of what the port carries. The connections are judged together, by what all of
/// them carry: they share the port, and the rings of a collective wait for each other.
///
/// The number doubles while the total grows by at least 45 % of what doubling could bring. One that
/// brings less, but at least 15 % of the total, is the last that is kept. One that brings nothing
/// is kept where the number grew more than once: the network limits flows, and some connections
/// take over what others leave while they pause. Else half as many streams more are tried, then a
/// quarter, and so on, until not even one more helps. Chance may have decided: a few times, after a
/// while, one more doubling is tried, and kept if it helps. Streams that do not come show nothing,
/// and do not count as one of these times. After a pause all is forgotten.
///
/// A daemon that is full halves the number: where a comm of the process has no stream at all, and
/// where streams that are not on trial are refused for a while, so that a place stays free for a
/// comm that begins. Until the number from before is reached, doublings are tried without end and
/// kept when their streams come: that they help was found before.
///
/// Where many connections send, each begins with one stream, and has what is wanted once it is
/// busy: most of them may be idle, and a daemon has a limited number of places.
/// Thread: under the instance's lock. It knows no clock and no stream.
class StreamCount {
 public:
  /// What one connection did since the last look.
  struct Report {
    uint64_t acked_bytes = 0;
    bool is_busy = false;     ///< there was data to send all the time
    size_t up = 0;            ///< streams that are there, of those that are wanted
    bool is_refused = false;  ///< a full daemon has no place for the others of those
  };

  /// Begins with `start`, and wants no more than `most`.
  StreamCount(size_t start, size_t most) : start_(start), most_(most) { forget(); }

  size_t most() const { return most_; }
  /// One more connection sends. Returns with how many streams it begins.
  size_t add_connection();
  void remove_connection() { --connections_; }
  /// The most that a connection keeps which was idle for kForgetStreamsNs.
  size_t idle() const { return is_crowded() ? 1 : start_; }
  /// The streams that a busy connection should have now.
  size_t wanted() const { return wanted_; }
  /// Nothing is tried for a while.
  bool is_settled() const { return phase_ == Phase::kSettled; }

  void report(const Report& report);
  /// The daemon is full: half of the streams, at least one, until later trials find room for the
  /// number from before.
  void halve();
  /// Judges what was reported since the last look, `passed_ns` ago.
  void look(int64_t passed_ns);

 private:
  enum class Phase { kMeasure, kTry, kSettled };

  /// A number that is given stays.
  bool is_crowded() const { return start_ < most_ && connections_ > kConnectionsWithStreams; }
  void observe(int64_t passed_ns);
  bool is_refused_for_long(int64_t passed_ns);
  void judge(double bytes_per_s);
  void judge_again(bool has_come, bool helps);
  /// There were more streams before the daemon was full.
  bool is_reduced() const { return count_ < before_full_; }
  void try_more();
  void settle();
  void rest(int64_t passed_ns);
  void forget();
  void restart_measuring();

  size_t start_;
  size_t most_;
  size_t connections_ = 0;
  Phase phase_ = Phase::kMeasure;
  size_t count_ = 0;   ///< known to help
  size_t wanted_ = 0;  ///< count_, and those on trial or to spare
  size_t step_ = 0;    ///< the next trial adds so many
  bool is_doubling_ = true;
  uint32_t grown_ = 0;      ///< how often more streams helped
  bool is_again_ = false;   ///< the first series of trials is over
  uint32_t again_ = 0;      ///< how many trials there were since
  int64_t pause_ns_ = 0;    ///< before the next one
  size_t before_full_ = 0;  ///< known to help before halve(); 0: there was none
  double bytes_per_s_ = 0;  ///< with count_ streams
  int64_t waited_ns_ = 0;   ///< for the streams on trial, or until the trials begin again
  int64_t busy_ns_ = 0;     ///< of this measurement
  uint64_t bytes_ = 0;
  int64_t idle_ns_ = 0;
  int64_t refused_ns_ = 0;  ///< for so long a full daemon refuses streams that are not on trial

  // What was reported since the last look.
  uint64_t reported_bytes_ = 0;
  bool is_any_busy_ = false;
  bool is_any_incomplete_ = false;  ///< a busy connection waits for streams
  bool is_any_refused_ = false;
};

}  // namespace lyre::nccl_adapter
