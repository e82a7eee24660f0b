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

/// SIGINT and SIGTERM end the command through the ordinary error path from here on.
void catch_interrupts();
bool is_interrupted();

using OnProgress = std::function<void(const nlohmann::json& progress)>;

/// The launcher that leads: it places the ranks, passes their out-of-band messages on, and ends all
/// of them when one fails. Joined machines relay for it.
class Hub {
 public:
  /// Waits for other machines where the options ask for it. Fails: throws Failure.
  Hub(const Options& options, const Machine& machine);
  /// Ends all ranks; joined machines end with the exit code given to finish, else 1.
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  /// One job from start to the end of its last process. Results by rank.
  /// Fails: throws Failure with the first error; no rank is left.
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
  struct Seat {
    Joined* machine;   // null: this one
    std::string host;  // as its machine calls it
    std::string name;  // as everybody does
  };
  struct RankState {
    std::optional<nlohmann::json> gather;
    std::optional<RankResult> result;
    bool has_exited = false;
  };

  void wait_for_machines(const std::string& address);
  bool accept_join(Joined* visitor);
  void place_ranks();
  std::string unique_name(const std::string& host, size_t machine) const;
  void start_ranks(Job job);
  std::vector<int> wait_readable();
  void receive(const std::vector<int>& readable);
  void on_frame(Frame frame);
  void on_exit(const Frame& frame);
  void answer_gather();
  void on_error(const Frame& frame);
  void fail(const RankError& error);
  void send_to_rank(const Frame& frame);
  bool have_all_exited() const;
  void check_deadlines() const;
  std::string name_of(int rank) const;

  const Options& options_;
  Machine machine_;
  std::chrono::steady_clock::time_point deadline_;
  std::chrono::steady_clock::time_point last_frame_;
  std::vector<std::unique_ptr<Joined>> joined_;
  std::vector<std::string> hosts_by_rank_;
  std::vector<Seat> seats_;  // by rank
  RankProcesses processes_;
  std::vector<RankState> ranks_;
  std::optional<RankError> error_;
  std::chrono::steady_clock::time_point error_deadline_;
  OnProgress on_progress_;
  int exit_code_ = 1;
};

/// A launcher that follows: starts the ranks that the hub gives it and passes their messages on.
/// Returns the command's exit code. Fails: throws Failure.
int run_joined(const Options& options, const Machine& machine);

}  // namespace lyre::allreduce
