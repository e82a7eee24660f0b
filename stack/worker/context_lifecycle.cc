#include "stack/worker/context_lifecycle.h"

#include <algorithm>

#include "stack/io/packet_io.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

void ContextLifecycle::attach(const Command& command) {
  // The control thread uses an index again only after every worker answered kDetached.
  Context& context = state_.contexts.open(command.context);
  context.attached = command;
  context.is_lent = command.is_lent;
  channel::RingPair& rings = *command.rings;
  context.submissions = {&rings.submission_indices, rings.submissions};
  context.completions = {&rings.completion_indices, rings.completions};
  context.copy_blocks = CopyBlocks(command.copy_bytes);
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

void ContextLifecycle::detach(uint32_t index) {
  Context& context = state_.contexts[index];
  if (context.state == Context::State::kFree || context.state == Context::State::kDetaching) return;
  context.state = Context::State::kDetaching;
  ++detaching_count_;
}

/// Gives up some of what a client that left had. Returns how much it looked at; 0: nothing is left.
size_t ContextLifecycle::give_up_some(uint32_t index) {
  Context& context = state_.contexts[index];
  size_t count = 0;
  // Listeners first: without them no session is added any more.
  for (; !context.listeners.empty() && count < kListenersPerDetachStepMax; ++count) {
    parts_.submissions.close_listener(context, context.listeners.front());
  }
  if (count > 0) return count;
  for (; !context.sessions.empty() && count < kSessionsPerDetachStepMax; ++count) {
    parts_.lifecycle.leave_to_itself(context.sessions.front());
  }
  return count > 0 ? count : give_up_slots(index);
}

size_t ContextLifecycle::give_up_slots(uint32_t index) {
  Context& context = state_.contexts[index];
  const uint32_t begin = context.slots_taken_back;
  const uint32_t end = std::min(state_.memory.rx_slot_count(), begin + kSlotsPerDetachStepMax);
  for (uint32_t slot = begin; slot < end; ++slot) {
    if (state_.loans.take_back(slot, index)) parts_.payload.release_slot(slot);
  }
  context.slots_taken_back = end;
  return end - begin;
}

size_t ContextLifecycle::continue_detaching() {
  if (detaching_count_ == 0) return 0;
  size_t work = 0;
  for (size_t i = 0; i < state_.contexts.in_use().size();) {
    const uint32_t index = state_.contexts.in_use()[i];
    if (state_.contexts[index].state != Context::State::kDetaching) {
      ++i;
      continue;
    }
    const size_t given_up = give_up_some(index);
    work += given_up;
    if (given_up > 0 || !parts_.regions.try_forget_memory(index)) {
      ++i;
      continue;
    }
    --detaching_count_;
    state_.contexts.close(index);  // another takes its place in in_use()
    parts_.replies.post({.kind = Reply::Kind::kDetached, .context = index});
    ++work;
  }
  return work;
}

}  // namespace lyre::worker
