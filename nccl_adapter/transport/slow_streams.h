#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lyre::nccl_adapter {

/// Finds the stream of a connection whose path is slower than those of its neighbours, as one is
/// that shares a link of the fabric which they do not use.
///
/// A stream's rate is what it delivered over the time in which it had data to send, and so is that
/// of each neighbour. A look is evidence about a stream only if a neighbour had data to send, too:
/// where all of them stop, for want of a processor or of data, none gains; and neighbours that are
/// idle because the job waits for the slow stream are compared by the times in which they work. So
/// the looks that count need not follow each other. A stream is slow whose rate was below
/// kSlowPercent of the median of its neighbours in kSlowWindows windows of evidence in a row.
/// Thread: under the instance's lock. It knows no clock and no stream.
class SlowStreams {
 public:
  /// What a stream that is there did since the last look.
  struct Look {
    size_t stream = 0;     ///< its index
    uint32_t session = 0;  ///< what is known of a stream holds for one session of it
    uint64_t acked_bytes = 0;
    bool is_active = false;  ///< it had data to send
    bool is_judged = false;  ///< it had much, and may be replaced
  };

  struct Slow {
    size_t stream = 0;
    double percent = 100;  ///< of its neighbours' rate
  };

  /// Call once each tick with all streams. Returns the slowest one that is slow, when a window
  /// ends. All evidence is dropped then: where two streams share a path, the other one shall stay.
  std::optional<Slow> look(std::span<const Look> streams);

 private:
  struct Sum {
    uint32_t looks = 0;
    uint64_t bytes = 0;
    double rate() const { return static_cast<double>(bytes) / looks; }
  };
  /// About one stream, of the running window.
  struct Evidence {
    uint32_t session = 0;
    Sum own;
    std::vector<Sum> beside;    ///< of the neighbours, by stream
    uint32_t slow_windows = 0;  ///< in a row, before this one
  };

  /// In percent of its neighbours, the rate of a stream that was found slow; 100: it was not.
  double judge(const Look& own, std::span<const Look> streams);
  static double median_rate(const std::vector<Sum>& sums);

  std::vector<Evidence> evidence_;  ///< by stream
};

}  // namespace lyre::nccl_adapter
