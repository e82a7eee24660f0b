#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nccl_adapter/abi/common.h"
#include "tests/sim/adapter/plan.h"
#include "tools/nccl_emulator/net_plugin.h"

/// A process that uses the plugin as NCCL's proxy does, through the exported table of one ABI
/// version, and checks what it gets.
namespace lyre::adapter_sim {

using nccl_abi::Result;

class World;
class Rank;

/// Byte `offset` of a message.
uint8_t pattern(uint64_t link, uint64_t message, uint64_t offset);

/// What both ends of a link share: the plan, and the handle on its way from one to the other.
struct Link {
  size_t index = 0;
  LinkPlan plan;
  uint8_t handle[nccl_abi::kHandleBytesMax] = {};
  int64_t handle_ns = INT64_MAX;  ///< when the sender has it
  bool is_settled = false;        ///< messages that do not fit were met, or an end failed
};

/// One end of a link: connect or accept, messages, close.
class LinkEnd {
 public:
  LinkEnd(World* world, Rank* rank, Link* link, bool is_sender);

  /// Does what can be done. Fails: an error code of the plugin.
  Result turn();
  bool is_done() const { return state_ == State::kDone; }
  /// Everything is through, or nothing was to be done.
  bool is_idle() const { return finished_ == link_->plan.messages.size(); }
  bool is_busy() const { return !outstanding_.empty() || state_ <= State::kOpening; }
  bool is_sender() const { return is_sender_; }
  /// Connected, and a request of its is not done.
  bool is_waiting() const { return state_ == State::kRunning && !outstanding_.empty(); }
  /// As NCCL closes a comm, whatever is under way.
  void close();
  /// Waits for a rank that may never come: accept, and the handle of another rank, have no timeout.
  bool waits_for_rendezvous() const {
    return state_ == State::kStart || (state_ == State::kOpening && !is_sender_);
  }
  /// What it has to wait for: the time of its next post.
  int64_t next_ns() const;
  const Link& link() const { return *link_; }
  std::string describe() const;
  void* comm() const { return comm_; }
  void check_slots();

 private:
  enum class State { kStart, kOpening, kRunning, kDone };
  struct Posted {
    void* request;
    uint64_t message;
    size_t slot;
  };

  Result open();
  Result on_open();
  void try_group();
  nccl_emulator::Message message_of(void* data, uint32_t bytes) const;
  Result post();
  void await_next();
  Result test();
  Result test_one(size_t index, bool must_be_done, bool* is_done);
  void on_sent(const Posted& posted, int size);
  void on_received(const Posted& posted, int size);
  uint8_t* slot(size_t index) { return memory_ + index * slot_bytes_; }
  const MessagePlan& message(uint64_t number) const { return link_->plan.messages[number]; }

  World* world_;
  Rank* rank_;
  Link* link_;
  bool is_sender_;
  State state_ = State::kStart;
  void* listen_comm_ = nullptr;
  void* comm_ = nullptr;
  void* registration_ = nullptr;
  size_t slot_bytes_;
  std::unique_ptr<uint8_t[]> owned_;
  uint8_t* memory_;
  std::vector<bool> is_slot_free_;
  std::vector<Posted> outstanding_;
  uint64_t posted_ = 0;
  uint64_t finished_ = 0;
  int64_t next_post_ns_ = 0;
};

class Rank {
 public:
  Rank(World* world, size_t index, const RankPlan& plan);

  void add(Link* link, bool is_sender);
  /// A look at everything; schedules the next.
  void turn();
  /// Something may have happened: the next turn comes soon.
  void wake();
  void abort() {
    is_aborting_ = true;
    wake();
  }

  size_t index() const { return index_; }
  const RankPlan& plan() const { return plan_; }
  nccl_emulator::NetPlugin& plugin() { return *plugin_; }
  uint64_t refused_groups() const { return refused_groups_; }
  void note_refused_group() { ++refused_groups_; }
  bool is_over() const { return is_over_; }
  bool is_dead() const { return is_dead_; }
  bool is_in_call() const { return calls_ > 0; }
  bool is_paused() const;
  /// Its host is gone.
  bool is_paused_for_good() const { return paused_until_ns_ >= INT64_MAX / 2; }
  /// Of several pauses the one that ends last counts: a host that died stays dead.
  void pause_until(int64_t ns) { paused_until_ns_ = std::max(paused_until_ns_, ns); }
  /// The process is gone. False: it is in a call, later.
  bool kill();
  Result result() const { return result_; }
  int64_t over_ns() const { return over_ns_; }
  bool has_aborted() const { return is_aborting_; }
  std::string describe() const;
  std::vector<std::unique_ptr<LinkEnd>>& ends() { return ends_; }

  /// What the progress thread does; nullptr: there is none.
  void set_progress(const void* thread, const std::function<void()>* work);
  void progress_alone();
  /// Ends its turns.
  void stop() { is_stopped_ = true; }
  void clean_up();

 private:
  void schedule(int64_t ns);
  void run();
  bool start();
  void check_properties();
  /// From v11 on the end of a communicator ends its attachment.
  bool has_finalize() const { return plan_.abi >= 11; }
  void leave_if_alone();
  void leave();
  void after_turn();

  World* world_;
  size_t index_;
  RankPlan plan_;
  std::unique_ptr<nccl_emulator::NetPlugin> plugin_;
  bool is_attached_ = false;
  uint64_t refused_groups_ = 0;
  std::vector<std::unique_ptr<LinkEnd>> ends_;
  const void* thread_ = nullptr;
  const std::function<void()>* work_ = nullptr;
  int calls_ = 0;
  bool is_within_call_ = false;  ///< this turn began in the sleep of another rank's call
  uint64_t turn_number_ = 0;
  int64_t turn_at_ns_ = INT64_MAX;
  int64_t idle_ns_ = 0;
  int64_t paused_until_ns_ = 0;
  int64_t finished_ns_ = 0;
  bool is_started_ = false;
  bool is_aborting_ = false;
  bool is_dead_ = false;
  bool is_stopped_ = false;
  bool is_over_ = false;
  Result result_ = Result::kSuccess;
  int64_t over_ns_ = 0;
};

}  // namespace lyre::adapter_sim
