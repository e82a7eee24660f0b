#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/transport/line_budget.h"

namespace lyre::nccl_adapter {

/// Limits the log lines about foreign connections. A port scanner finds the ports of all instances
/// of the process, and must not use up the lines that name a peer with another version.
/// Thread: any.
class ForeignLines {
 public:
  /// What all instances of the process share.
  static ForeignLines& of_process() {
    static ForeignLines lines;
    return lines;
  }

  /// `is_version`: about a protocol version. See LineBudget::take().
  std::optional<uint64_t> take(bool is_version, int64_t now_ns) {
    const std::lock_guard lock(mutex_);
    return (is_version ? for_versions_ : for_strangers_).take(now_ns);
  }

 private:
  std::mutex mutex_;
  LineBudget for_strangers_{kForeignLinesPerHour};
  LineBudget for_versions_{kForeignLinesPerHour};
};

}  // namespace lyre::nccl_adapter
