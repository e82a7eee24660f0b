#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/lyre/allreduce/job.h"
#include "tools/lyre/allreduce/wire.h"

namespace lyre::allreduce {

/// The rank processes of this machine. Each executes this program again. A rank also ends when its
/// launcher ends for any reason (PR_SET_PDEATHSIG). With `own_sessions` each rank leads a session
/// of its own (setsid). Ctrl-C reaches the launcher alone then, which ends its ranks.
class RankProcesses {
 public:
  explicit RankProcesses(bool own_sessions) : own_sessions_(own_sessions) {}
  ~RankProcesses() { kill_all(); }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Fails: throws Failure.
  void start(const Job& job);
  bool is_local(int rank) const { return processes_.contains(rank); }
  bool is_empty() const { return processes_.empty(); }
  std::vector<int> descriptors() const;

  /// Returns the frames of the ranks whose descriptors are in `readable`. A rank that has ended
  /// yields kExited. Its payload is how it ended, or null for exit code 0.
  std::vector<Frame> receive(const std::vector<int>& readable);
  /// False when the rank has ended.
  bool send(const Frame& frame);
  void kill_all();

 private:
  struct Process {
    pid_t pid = -1;
    int fd = -1;
    FrameReader reader;
  };

  Frame reap(int rank, Process* process);

  const bool own_sessions_;
  std::map<int, Process> processes_;  // by rank
};

}  // namespace lyre::allreduce
