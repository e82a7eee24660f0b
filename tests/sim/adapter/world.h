#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/adapter/network.h"
#include "tests/sim/adapter/plan.h"
#include "tests/sim/adapter/rank.h"
#include "tests/sim/adapter/rate_check.h"
#include "tests/sim/adapter/system.h"
#include "tests/sim/adapter/world_rdma.h"
#include "tools/nccl_emulator/net_plugin.h"

/// One run of a plan: ranks with the whole adapter, on a virtual network and in virtual time.
namespace lyre::adapter_sim {

/// What a run came to.
struct Outcome {
  std::string wrong;  ///< empty: as it must be
  uint64_t trace = 0;
  uint64_t events = 0;
  uint64_t messages = 0;
  uint64_t bytes = 0;
  int64_t span_ns = 0;
  int64_t last_message_ns = 0;  ///< when it was done, at the receiver or the sender
  uint64_t failed_ranks = 0;
  uint64_t rdma_bytes = 0;          ///< that queue pairs delivered
  uint64_t rdma_written_bytes = 0;  ///< of those, by writes
  uint64_t rdma_late = 0;    ///< sends and writes that arrived after their queue pair was lost
  uint64_t rdma_broken = 0;  ///< queue pairs and devices in use that broke
};

class World final : public System {
 public:
  /// `prints`: what the plugin logs and what breaks, with virtual times.
  World(const Plan& plan, bool prints);
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Outcome run();

  Events& events() { return events_; }
  Network& network() { return network_; }
  Rng& rng() { return rng_; }
  const Plan& plan() const { return plan_; }
  /// Something is not as it must be. The first one counts.
  void expect(bool holds, const std::string& what);
  void note(const std::string& what);
  void print(const std::string& what) const;
  void count_message(uint64_t bytes);
  void note_done() { outcome_.last_message_ns = events_.now_ns() - begin_ns_; }
  /// Some rank is gone without having done its work.
  bool is_job_broken() const;
  /// In the trace: what is equal in runs of one seed.
  void mix(uint64_t value);
  /// The rank's table of the plugin, with its settings in the environment.
  std::unique_ptr<nccl_emulator::NetPlugin> load_plugin(const Rank& rank);
  int64_t begin_ns() const { return begin_ns_; }
  int64_t stays_until_ns() const { return begin_ns_ + plan_.stays_ns; }
  uint32_t process_id_of(const Rank& rank) const;
  /// The rank whose code runs. True: it runs in the sleep of another rank's call.
  bool enter(Rank* rank);
  void exit();
  /// What the plugin logs.
  void on_line(nccl_abi::LogLevel level, const char* line);

  // ---- System ----

  int64_t now_ns() override { return events_.now_ns(); }
  void sleep(int64_t ns) override;
  nccl_adapter::Nonce nonce() override;
  std::string host_name() override;
  uint32_t process_id() override;
  void set_progress(const void* thread, const std::function<void()>* work) override;

 private:
  void begin(const Fault& fault);
  void begin_on_connection(const Fault& fault);
  void end(const Fault& fault);
  void kill_rank(Rank* rank);
  void judge();
  void check_rails();
  void check_dials();
  void check_death();
  void check_resume();
  void schedule();
  void judge_rank(const Rank& rank);
  std::vector<std::string> rail_pairs();
  void tick();
  void check_nothing_left();
  bool is_over() const;

  Plan plan_;
  bool prints_;
  Events events_;
  Rng rng_;
  Network network_;
  WorldRdma rdma_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Rank*> running_;
  Outcome outcome_;
  uint64_t nonces_ = 0;
  int64_t begin_ns_ = 0;
  std::vector<uint64_t> warnings_;  ///< of each rank
  std::vector<std::string>
      pairs_before_;     ///< the rail pairs that streams took before anything broke
  int64_t died_ns_ = 0;  ///< when a rank was killed
  RateCheck rate_check_;
};

}  // namespace lyre::adapter_sim
