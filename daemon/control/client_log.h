#pragma once

#include <spdlog/common.h>

#include <cstddef>
#include <cstdint>
#include <map>

#include "stack/base/nanos.h"

namespace lyre {

/// Bounds the log lines that clients cause: so many in a minute for the clients of one uid. A
/// quarter of them is kept for warnings: a job whose clients attach again and again does not hide
/// why one was disconnected. The log says that lines are left out, and how many were.
/// Thread: the control thread.
class ClientLog {
 public:
  explicit ClientLog(uint32_t lines_per_minute_max) : lines_max_(lines_per_minute_max) {}

  /// True when a line about a client of `uid` is to be written now. A line that the log's level
  /// leaves out is not counted.
  bool may_write(spdlog::level::level_enum level, uint32_t uid, Nanos now);

 private:
  /// Uids that are counted at a time. Those beyond share one count.
  static constexpr size_t kUidsMax = 1024;
  struct Minute {
    Nanos begin;
    uint32_t lines = 0;
    uint64_t info_left_out = 0;
    uint64_t warnings_left_out = 0;

    uint64_t left_out() const { return info_left_out + warnings_left_out; }
  };

  Minute& minute_of(uint32_t uid, Nanos now);
  static void leave_out(Minute& minute, uint32_t uid, bool is_warning);

  const uint32_t lines_max_;
  std::map<uint32_t, Minute> minutes_;  ///< by uid
};

}  // namespace lyre
