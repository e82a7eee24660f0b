#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/lyre/allreduce/net_address.h"
#include "tools/lyre/allreduce/options.h"
#include "tools/lyre/allreduce/rank_process.h"
#include "tools/lyre/allreduce/wire.h"

namespace lyre::allreduce {

/// From now on SIGINT and SIGTERM end the command as an error does.
void catch_interrupts();
bool is_interrupted();

using OnProgress = std::function<void(const nlohmann::json& progress)>;

/// The first launcher. It places the ranks, forwards their out-of-band messages, and ends all ranks
/// when one fails. The launchers of joined machines forward messages for it.
class Hub {
 public:
  /// Waits for other machines when the options have --listen. Fails: throws Failure.
  Hub(const Options& options, const Machine& machine);
  /// Ends all ranks. Joined machines end with the exit code of finish(), or 1 without it.
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  /// Runs one job until its last process has ended. Returns the results by rank.
  /// Fails: throws Failure with the first error, after all ranks have ended.
  std::vector<RankResult> run(Job job, const OnProgress& on_progress);

  const std::vector<std::string>& hosts_by_rank() const { return hosts_by_rank_; }
  void finish(int exit_code) { exit_code_ = exit_code; }

 private:
  struct Joined {
    UniqueFd fd;
    FrameReader reader;
    std::vector<std::string> hosts;
    int local_ranks = 0;
  };
  struct Placement {
    Joined* machine;   // null: this machine
    std::string host;  // the name on its machine
    std::string name;  // the unique name; of another machine: printable
  };
  struct RankState {
    std::optional<nlohmann::json> gather;
    std::optional<RankResult> result;
    bool has_exited = false;
  };

  using Candidates = std::vector<std::unique_ptr<Joined>>;

  void wait_for_machines();
  void await_machine(int listener, Candidates* candidates);
  void check_wait();
  int missing_ranks() const;
  bool accept_join(Joined* candidate);
  void place_ranks();
  std::string unique_name(const std::string& host, size_t machine) const;
  void start_ranks(Job job);
  std::vector<int> wait_readable();
  void receive(const std::vector<int>& readable);
  void on_frame(Frame frame);
  void on_result(const Frame& frame);
  void on_exit(const Frame& frame);
  void answer_gather();
  void on_error(const Frame& frame);
  void fail(const RankError& error);
  void send_to_rank(const Frame& frame);
  bool have_all_exited() const;
  void check_deadlines() const;
  std::string name_of(int rank) const;
  /// `text` came from that rank. Text of another machine becomes printable.
  std::string text_of(int rank, const std::string& text) const;

  const Options& options_;
  Machine machine_;
  std::chrono::steady_clock::time_point deadline_;
  std::chrono::steady_clock::time_point last_frame_;
  std::vector<std::unique_ptr<Joined>> joined_;
  std::vector<std::string> hosts_by_rank_;
  std::vector<Placement> placements_;  // by rank
  RankProcesses processes_;
  std::vector<RankState> ranks_;
  std::optional<RankError> error_;
  std::chrono::steady_clock::time_point error_deadline_;
  OnProgress on_progress_;
  int exit_code_ = 1;
};

/// The launcher of a joined machine: starts the ranks that the hub assigns and forwards their
/// messages.
/// Returns the command's exit code. Fails: throws Failure.
int run_joined(const Options& options, const Machine& machine);

}  // namespace lyre::allreduce
