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
  WorkerLink(channel::RingPair* rings, const std::atomic<uint32_t>* worker_sleeps, UniqueFd wake);

  /// Submits now, and wakes the worker if it sleeps. False when the ring has no room, or older
  /// submissions still wait for some: the caller is told to try again.
  bool try_submit(const channel::Submission& entry);
  /// Submits now, or as soon as there is room: never lost, in order.
  void submit(const channel::Submission& entry);
  /// Gives a lent slot back, and tells of what was copied on that session; collected until
  /// flush_releases(), another session's turn, or the entry is full.
  void release(channel::SessionName session, uint32_t slot, uint32_t copied_bytes);
  void flush_releases();
  /// Moves what waits for room into the ring, as far as it goes.
  void flush_waiting();

  /// True when the worker has taken everything that was submitted.
  bool is_all_taken();

  /// True when something waits for room in the submission ring.
  bool has_waiting() const { return !waiting_.is_empty(); }
  /// True once after try_submit() failed, when there is room again.
  bool take_room_news();
  bool is_short_of_room() const { return wants_room_; }

  channel::CompletionConsumer& completions() { return completions_; }
  /// The other side wrote indices that cannot be.
  bool is_broken() const { return submissions_.is_broken() || completions_.is_broken(); }

  /// Who a name belongs to; nullptr for names that are stale or were never given.
  lyre_session* find(channel::SessionName name) const;
  /// The place of an index in the table of names; nullptr when the index is absurd.
  lyre_session** place(uint32_t index);

 private:
  /// More sessions than a worker can have: a larger index is a broken daemon.
  static constexpr uint32_t kSessionsMax = 1u << 22;

  void push(const channel::Submission& entry);

  channel::SubmissionProducer submissions_;
  channel::CompletionConsumer completions_;
  const std::atomic<uint32_t>* worker_sleeps_;
  UniqueFd wake_;
  Fifo<channel::Submission> waiting_;
  channel::Submission releases_;
  bool wants_room_ = false;
  std::vector<lyre_session*> names_;
};

}  // namespace lyre::client
