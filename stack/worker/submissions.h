#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/channel/abi.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/clients/context_walk.h"
#include "stack/worker/control_replies.h"
#include "stack/worker/received_payload.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/stats_writer.h"
#include "stack/worker/tables/slot_loans.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// What clients ask for. An entry is copied once out of shared memory and then checked: each
/// handler returns nullptr, or the rule that the client broke, for which it is expelled.
/// Thread: the worker.
class Submissions {
 public:
  struct Parts {
    SessionLifecycle& lifecycle;
    ReceivedPayload& payload;
    StatsWriter& stats_writer;
    ControlReplies& replies;
  };
  Submissions(WorkerState& state, const Parts& parts) : state_(state), parts_(parts) {}

  /// Takes up to kSubmissionsPerContextMax entries of each context, up to kOpensPerContextMax opens
  /// among them, until kSubmissionsPerPollMax or kOpensPerPollMax are taken. Returns how many it
  /// took.
  size_t take();
  /// Some of one context's. `broken_rule`: nullptr, or the rule that the last one broke.
  size_t take_of(Context& context, const char*& broken_rule);
  /// Some can be taken.
  bool are_waiting() const;
  /// Some wait for room in their client's completion ring, or in a ring to another worker.
  bool are_held_up() const;
  void close_listener(Context& context, uint32_t index);

 private:
  const char* on_submission(Context& context, const channel::Submission& entry);
  const char* on_session_submission(Context& context, const channel::Submission& entry);
  const char* on_connect(Context& context, const channel::Submission& entry);
  const char* on_listen(Context& context, const channel::Submission& entry);
  bool may_listen(const Context& context, const Endpoint& local) const;
  channel::EndStatus listen(Context& context, Endpoint& local, const channel::Submission& entry,
                            uint32_t& index);
  const char* on_close_listen(Context& context, const channel::Submission& entry);
  const char* on_send(Context& context, uint32_t conn, const channel::Submission& entry);
  void shut_down_session(uint32_t conn);
  const char* on_set_option(uint32_t conn, const channel::Submission& entry);
  const char* on_release(Context& context, const channel::Submission& entry);
  void return_slots(const SlotLoan& owner, uint32_t count);
  bool release_inherited(const Context& context, uint32_t slot);
  const char* release_copy_block(Context& context, uint32_t block);
  void count_received_copy(const Context& context, channel::SessionName reader, uint32_t bytes);
  void return_charge(uint32_t conn, uint32_t generation, uint32_t charge_bytes);
  bool is_live(const Context& context, channel::SessionName name) const;
  bool is_any_waiting(bool has_room) const;

  WorkerState& state_;
  Parts parts_;
  ContextWalk walk_;
  size_t opens_ = 0;  ///< in this turn
};

}  // namespace lyre::worker
