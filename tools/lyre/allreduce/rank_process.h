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

/// The rank processes of this machine: started by executing this program again, ended by their
/// pids. A rank also ends when its launcher does, whatever killed it.
class RankProcesses {
 public:
  RankProcesses() = default;
  ~RankProcesses() { kill_all(); }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Fails: throws Failure.
  void start(const Job& job);
  bool is_local(int rank) const { return processes_.contains(rank); }
  bool is_empty() const { return processes_.empty(); }
  std::vector<int> descriptors() const;

  /// Frames of the ranks whose descriptors are in `readable`; a rank that ended gives kExited,
  /// whose payload is how, or null when it ended well.
  std::vector<Frame> receive(const std::vector<int>& readable);
  /// False when the rank is gone.
  bool send(const Frame& frame);
  void kill_all();

 private:
  struct Process {
    pid_t pid = -1;
    int fd = -1;
    FrameReader reader;
  };

  Frame reap(int rank, Process* process);

  std::map<int, Process> processes_;  // by rank
};

}  // namespace lyre::allreduce
