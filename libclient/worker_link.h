#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "libclient/fifo.h"
#include "libclient/resources.h"
#include "stack/channel/abi.h"
#include "stack/channel/ring.h"

struct lyre_session;

namespace lyre::client {

/// The client's end of the rings shared with one worker. Thread: the context's.
class WorkerLink {
 public:
  WorkerLink(channel::RingPair* rings, const channel::WorkerDoorbell* doorbell, UniqueFd wake);

  /// Submits now, and wakes the worker if it sleeps, unless wake-ups are deferred. False when the
  /// ring has no room, or older submissions wait for room: the caller tries again.
  bool try_submit(const channel::Submission& entry);
  /// Submits now, or in order as soon as there is room.
  void submit(const channel::Submission& entry);
  /// Gives a lent slot back and reports copied bytes of that session. The entry is submitted by
  /// flush_releases(), when it is full, or when a slot of another session follows.
  void release(channel::SessionName session, uint32_t slot, uint32_t copied_bytes);
  void flush_releases();
  /// Moves waiting submissions into the ring while it has room.
  void flush_waiting();
  /// From now on wake() wakes the worker, once for all that was submitted since the last call.
  void defer_wakeups() { defers_wakeups_ = true; }
  void wake();

  /// True when the worker has taken everything that was submitted.
  bool is_all_taken();

  /// True when something waits for room in the submission ring.
  bool has_waiting() const { return !waiting_.is_empty(); }
  /// True once after try_submit() failed, when there is room again.
  bool take_room_news();
  bool is_short_of_room() const { return wants_room_; }

  /// See channel::WorkerDoorbell. Relaxed: a lone hint, from worker_threads.cc.
  bool is_crowded() const { return doorbell_->is_crowded.load(std::memory_order_relaxed) != 0; }

  channel::CompletionConsumer& completions() { return completions_; }
  /// The daemon wrote ring indices that are not possible.
  bool is_broken() const { return submissions_.is_broken() || completions_.is_broken(); }

  /// The session of a name; nullptr when the name is stale or was never assigned.
  lyre_session* find(channel::SessionName name) const;
  /// The place of an index in the table of names; nullptr when the index is too large.
  lyre_session** place(uint32_t index);

 private:
  /// More than the sessions of a worker: the daemon never assigns a larger index.
  static constexpr uint32_t kSessionsMax = 1u << 22;

  void push(const channel::Submission& entry);

  channel::SubmissionProducer submissions_;
  channel::CompletionConsumer completions_;
  const channel::WorkerDoorbell* doorbell_;
  UniqueFd wake_;
  Fifo<channel::Submission> waiting_;
  channel::Submission releases_;
  bool wants_room_ = false;
  bool defers_wakeups_ = false;
  bool must_wake_ = false;  ///< something was submitted since the last wake()
  std::vector<lyre_session*> names_;
};

}  // namespace lyre::client
