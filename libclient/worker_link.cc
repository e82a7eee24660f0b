#include "libclient/worker_link.h"

#include <sys/eventfd.h>

#include <utility>

#include "libclient/session.h"

namespace lyre::client {

WorkerLink::WorkerLink(channel::RingPair* rings, const channel::WorkerDoorbell* doorbell,
                       UniqueFd wake)
    : submissions_(&rings->submission_indices, rings->submissions),
      completions_(&rings->completion_indices, rings->completions),
      doorbell_(doorbell),
      wake_(std::move(wake)) {}

void WorkerLink::push(const channel::Submission& entry) {
  submissions_.push(entry);
  submissions_.publish();
  must_wake_ = true;
  if (!defers_wakeups_) wake();
}

void WorkerLink::wake() {
  if (!must_wake_) return;
  must_wake_ = false;
  if (channel::must_ring(doorbell_->worker_sleeps)) ::eventfd_write(wake_.get(), 1);
}

bool WorkerLink::try_submit(const channel::Submission& entry) {
  flush_waiting();
  if (!waiting_.is_empty() || submissions_.room() == 0) {
    wants_room_ = true;
    return false;
  }
  push(entry);
  return true;
}

void WorkerLink::submit(const channel::Submission& entry) {
  flush_waiting();
  if (waiting_.is_empty() && submissions_.room() > 0) {
    push(entry);
  } else {
    waiting_.push(entry);
  }
}

void WorkerLink::flush_waiting() {
  while (!waiting_.is_empty() && submissions_.room() > 0) push(waiting_.pop());
}

bool WorkerLink::take_room_news() {
  if (!wants_room_ || !waiting_.is_empty() || submissions_.room() == 0) return false;
  wants_room_ = false;
  return true;
}

void WorkerLink::release(channel::SessionName session, uint32_t slot, uint32_t copied_bytes) {
  if (releases_.session != session) flush_releases();
  releases_.session = session;
  releases_.copied_bytes += copied_bytes;
  releases_.body.release.slots[releases_.count++] = slot;
  if (releases_.count == channel::kReleaseSlotsMax) flush_releases();
}

bool WorkerLink::is_all_taken() {
  return waiting_.is_empty() &&
         submissions_.room(channel::kSubmissionEntries) == channel::kSubmissionEntries;
}

void WorkerLink::flush_releases() {
  if (releases_.count == 0) return;
  releases_.op = channel::Op::kRelease;
  submit(releases_);
  releases_ = channel::Submission{};
}

lyre_session* WorkerLink::find(channel::SessionName name) const {
  if (name.index >= names_.size()) return nullptr;
  lyre_session* session = names_[name.index];
  return session != nullptr && session->name == name ? session : nullptr;
}

lyre_session** WorkerLink::place(uint32_t index) {
  if (index >= kSessionsMax) return nullptr;
  if (index >= names_.size()) names_.resize(index + 1);
  return &names_[index];
}

}  // namespace lyre::client
