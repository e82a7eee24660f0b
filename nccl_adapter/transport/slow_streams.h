#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lyre::nccl_adapter {

/// Finds the stream of a connection that shares a path of the network which its neighbours do not:
/// it has less than kSlowPercent of their median rate in kSlowWindows windows of time in a row,
/// although it always has data to send. All streams are measured over the same time.
/// Thread: under the instance's lock. It knows no clock and no stream.
class SlowStreams {
 public:
  /// What a stream that is there did since the last look.
  struct Look {
    size_t stream = 0;     ///< its index
    uint32_t session = 0;  ///< another one has to be watched from its beginning
    uint64_t acked_bytes = 0;
    bool is_backlogged = false;  ///< it had much to send all the time
  };

  /// The slowest of the slow streams, when a window ends and there is one.
  std::optional<size_t> look(std::span<const Look> streams, int64_t passed_ns);

 private:
  struct Window {
    uint32_t session = 0;
    uint64_t bytes = 0;
    uint32_t looks = 0;       ///< in which the session was there
    uint32_t backlogged = 0;  ///< of these, with much to send
    uint32_t slow_count = 0;  ///< windows in a row
  };

  std::optional<size_t> judge();
  uint64_t median_beside(size_t stream) const;

  std::vector<Window> windows_;
  uint32_t looks_ = 0;
  int64_t passed_ns_ = 0;
};

}  // namespace lyre::nccl_adapter
