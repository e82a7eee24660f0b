#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "tools/lyre/comms.h"

namespace lyre::tools {

/// Programs whose comms have metrics of their own, of a uid and of all. A user chooses the names of
/// his programs, and Prometheus keeps each series for hours.
inline constexpr uint32_t kMetricProgramsPerUidMax = 16;
inline constexpr uint32_t kMetricProgramsMax = 512;
/// For how long a program keeps its place after its last comm. Its counters stay so long.
inline constexpr int64_t kMetricProgramHoldNs = 3'600'000'000'000;
/// The label of all programs that have no place, and of the users of those over the limit of all.
inline constexpr const char* kOtherPrograms = "other";

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
/// Memory: bounded by the limits of read_comms() and of this file. Thread: one.
class CommGroups {
 public:
  void look(const CommsSnapshot& comms);
  /// Also those that have no comm now, and had one within kMetricProgramHoldNs.
  const std::map<CommGroupKey, CommGroup>& groups() const { return groups_; }

 private:
  struct CommKey {
    uint32_t uid;
    uint32_t pid;
    std::array<uint8_t, 16> id;
    bool is_sender;

    friend auto operator<=>(const CommKey&, const CommKey&) = default;
  };
  struct Program {
    std::string uid;
    std::string name;

    friend auto operator<=>(const Program&, const Program&) = default;
  };

  void forget_old(int64_t now_ns);
  Program place_of(const CommsOfProcess& process, int64_t now_ns);
  bool try_place(const Program& program, uint32_t most_of_uid, int64_t now_ns);
  uint32_t places_of(const std::string& uid) const;

  std::map<Program, int64_t> seen_ns_;  ///< when it had a comm last, by CommsSnapshot::at_ns
  std::map<CommGroupKey, CommGroup> groups_;
  std::map<CommKey, CommCounts> earlier_;
};

}  // namespace lyre::tools
