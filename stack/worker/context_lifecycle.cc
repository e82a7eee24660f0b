#include "stack/worker/context_lifecycle.h"

#include <algorithm>
#include <atomic>

#include "stack/io/packet_io.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

void ContextLifecycle::attach(const Command& command) {
  // The control thread uses an index again only after every worker answered kDetached.
  Context& context = state_.contexts.open(command.context);
  const uint32_t weight = command.domain == nullptr ? 1 : command.domain->weight;
  state_.accounts.open(command.context, DomainRules::user_of(command.domain, command.uid), weight);
  state_.transmit_queue.set_weight(command.context, weight);
  context.attached = command;
  context.is_lent = command.is_lent;
  channel::RingPair& rings = *command.rings;
  context.submissions = {&rings.submission_indices, rings.submissions};
  context.completions = {&rings.completion_indices, rings.completions};
  context.copy_blocks = CopyBlocks(command.copy_bytes);
  if (command.attached_workers != nullptr) {
    // Release: pairs with the acquire in Context::is_known_to_all().
    command.attached_workers->fetch_add(1, std::memory_order_release);
  }
  const uint8_t* arena = command.memory + command.arena_offset;
  context.has_region = state_.memory.add_region(
      command.context,
      {.base = arena, .bytes = command.arena_bytes, .page_bytes = command.page_bytes});
  if (!context.has_region) {
    return parts_.replies.expel(context, "the ports cannot be given its memory");
  }
  state_.client_memory.add_arena(command.context, arena, command.arena_bytes);
  state_.region_segment_bytes[command.context] =
      state_.memory.region_segment_bytes(command.context);
}

void ContextLifecycle::detach(const Command& command) {
  Context& context = state_.contexts[command.context];
  if (context.state == Context::State::kFree || context.state == Context::State::kDetaching) return;
  context.resets_sessions = command.resets_sessions || context.state == Context::State::kExpelled;
  // A client that hung up and did not end may go on writing.
  context.last_submissions_max = context.resets_sessions ? 0 : channel::kSubmissionEntries;
  context.state = Context::State::kDetaching;
  state_.notifier.forget_failed_opens(context);
  context.linger_until = state_.now + kLingerMax;
  ++detaching_count_;
}

void ContextLifecycle::on_standstill(Nanos stood_still) {
  for (const uint32_t index : state_.contexts.in_use()) {
    state_.contexts[index].linger_until += stood_still;  // set anew by detach()
  }
}

/// Gives up some of what a client that left had. Returns how much it looked at; 0: what is left
/// waits for acknowledgements.
size_t ContextLifecycle::give_up_some(uint32_t index) {
  Context& context = state_.contexts[index];
  size_t count = take_last_submissions(context);
  if (count > 0) return count;
  // Listeners first: without them no session is added any more.
  for (; !context.listeners.empty() && count < kListenersPerDetachStepMax; ++count) {
    parts_.submissions.close_listener(context, context.listeners.front());
  }
  if (count > 0) return count;
  count = give_up_sessions(context);
  if (count > 0) return count;
  count = give_up_slots(index);
  return count > 0 ? count : finish_lingering(context);
}

/// Processes submissions that the client made before the detach; they may close sessions.
size_t ContextLifecycle::take_last_submissions(Context& context) {
  if (context.last_submissions_max == 0) return 0;
  const char* broken_rule = nullptr;
  const auto taken = static_cast<uint32_t>(parts_.submissions.take_of(context, broken_rule));
  context.last_submissions_max -= std::min(taken, context.last_submissions_max);
  if (taken == 0 || broken_rule != nullptr) context.last_submissions_max = 0;
  if (broken_rule != nullptr) context.resets_sessions = true;
  return taken;
}

/// Visits each session once, and moves those that wait for acknowledgements to the end.
size_t ContextLifecycle::give_up_sessions(Context& context) {
  if (!context.is_leaving_sessions) {
    context.is_leaving_sessions = true;
    context.sessions_to_leave = context.sessions.size();
  }
  // An open may have moved to another worker since the last step.
  context.sessions_to_leave = std::min(context.sessions_to_leave, context.sessions.size());
  size_t count = 0;
  for (; context.sessions_to_leave > 0 && count < kSessionsPerDetachStepMax; ++count) {
    --context.sessions_to_leave;
    const uint32_t conn = context.sessions.front();
    context.sessions.remove(state_.sessions, conn);
    context.sessions.push_back(state_.sessions, conn);
    parts_.lifecycle.leave(conn, context.resets_sessions || state_.is_shutting_down);
  }
  return count;
}

size_t ContextLifecycle::finish_lingering(Context& context) {
  size_t count = 0;
  // Visits the sessions of which a send was acknowledged, and those that ended.
  for (; !context.dirty.empty() && count < kSessionsPerDetachStepMax; ++count) {
    const uint32_t conn = context.dirty.front();
    context.dirty.remove(state_.sessions, conn);
    parts_.lifecycle.leave_if_finished(conn);
  }
  if (state_.now < context.linger_until && !state_.is_shutting_down) return count;
  for (; !context.sessions.empty() && count < kSessionsPerDetachStepMax; ++count) {
    parts_.lifecycle.leave(context.sessions.front(), true);
  }
  return count;
}

bool ContextLifecycle::is_lingering(const Context& context) const {
  return context.state == Context::State::kDetaching && context.is_leaving_sessions &&
         context.sessions_to_leave == 0 && !context.sessions.empty() && context.dirty.empty() &&
         context.slots_taken_back == state_.memory.rx_slot_count();
}

bool ContextLifecycle::has_work() const {
  if (detaching_count_ == 0) return false;
  const auto in_use = state_.contexts.in_use();
  return std::any_of(in_use.begin(), in_use.end(), [this](uint32_t index) {
    const Context& context = state_.contexts[index];
    return context.state == Context::State::kDetaching && !is_lingering(context) &&
           !parts_.regions.waits_for_port(context);
  });
}

Nanos ContextLifecycle::next_deadline() const {
  Nanos deadline = kNever;
  if (detaching_count_ == 0) return deadline;
  for (const uint32_t index : state_.contexts.in_use()) {
    const Context& context = state_.contexts[index];
    if (is_lingering(context)) deadline = earlier(deadline, context.linger_until);
  }
  return deadline;
}

/// The client may run and read from its slots: see ContextHeader::revoked.
void ContextLifecycle::revoke_loans(Context& context) {
  context.header().revoked.store(1, std::memory_order_relaxed);
  // Release: pairs with the acquire fence of check_lent() in libclient. The word is visible before
  // anything is written to a slot that goes back.
  std::atomic_thread_fence(std::memory_order_release);
}

size_t ContextLifecycle::give_up_slots(uint32_t index) {
  Context& context = state_.contexts[index];
  const uint32_t begin = context.slots_taken_back;
  if (begin == 0) revoke_loans(context);
  const uint32_t end = std::min(state_.memory.rx_slot_count(), begin + kSlotsPerDetachStepMax);
  for (uint32_t slot = begin; slot < end; ++slot) {
    if (!state_.loans.take_back(slot, index)) continue;
    parts_.payload.release_slot(slot);
    state_.accounts.remove(index, 1);
  }
  context.slots_taken_back = end;
  return end - begin;
}

size_t ContextLifecycle::continue_detaching() {
  size_t work = 0;
  for (size_t i = 0; i < state_.contexts.in_use().size();) {
    const uint32_t index = state_.contexts.in_use()[i];
    if (state_.contexts[index].state != Context::State::kDetaching) {
      ++i;
      continue;
    }
    const size_t given_up = give_up_some(index);
    work += given_up;
    const bool is_used = given_up > 0 || !state_.contexts[index].sessions.empty();
    if (is_used || !parts_.regions.try_forget_memory(index)) {
      ++i;
      continue;
    }
    --detaching_count_;
    state_.accounts.close(index);
    state_.inherited_loans.forget(index);
    parts_.stats_writer.clear_client(index);
    state_.contexts.close(index);  // another takes its place in in_use()
    parts_.replies.post({.kind = Reply::Kind::kDetached, .context = index});
    ++work;
  }
  return work;
}

}  // namespace lyre::worker
