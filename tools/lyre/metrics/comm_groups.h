#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "tools/lyre/comms.h"
#include "tools/lyre/metrics/metric_places.h"

namespace lyre::tools {

/// Whose comms are added up.
struct CommGroupKey {
  std::string uid;
  std::string program;
  bool is_sender = false;

  friend auto operator<=>(const CommGroupKey&, const CommGroupKey&) = default;
};

/// What a comm counts, by index.
enum CommCounter : size_t {
  kMovedBytes,
  kMessages,
  kSentAgainBytes,
  kStreamsRemade,
  kCopiedBytes,
  kQueuePairsLost,
  kCommCounterCount,
};
struct CommCounts {
  uint64_t values[kCommCounterCount] = {};
};
CommCounts counts_of(const nccl_abi::CommView& view);

/// The comms of one key. `counts`: see CommGroups.
struct CommGroup {
  uint64_t comms = 0;
  uint64_t failed = 0;
  uint64_t streams_missing = 0;
  uint64_t queue_pairs_up = 0;
  double outstanding_bytes = 0;
  int64_t oldest_request_ns = 0;  ///< the largest age
  double counts[kCommCounterCount] = {};
};

/// Adds comms up. A counter is the sum of what comms counted between two looks that both saw them:
/// it does not fall when a comm ends, and a comm that comes back after a look that missed it adds
/// nothing twice. What a comm counted before its first look is not in it.
/// Memory: bounded by the limits of read_comms() and of metric_places.h. Thread: one.
class CommGroups {
 public:
  void look(const CommsSnapshot& comms);
  /// Also those that have no comm now, and had one within kMetricNameHoldNs.
  const std::map<CommGroupKey, CommGroup>& groups() const { return groups_; }

 private:
  struct CommKey {
    uint32_t uid;
    uint32_t pid;
    std::array<uint8_t, 16> id;
    bool is_sender;

    friend auto operator<=>(const CommKey&, const CommKey&) = default;
  };

  void forget_old(int64_t now_ns);

  MetricPlaces places_;  ///< of programs
  std::map<CommGroupKey, CommGroup> groups_;
  std::map<CommKey, CommCounts> earlier_;
};

}  // namespace lyre::tools
