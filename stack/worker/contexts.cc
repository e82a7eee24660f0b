#include <sys/eventfd.h>

#include <algorithm>

#include "stack/base/check.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/impl.h"
#include "stack/worker/inbox.h"
#include "stack/worker/tables/listeners.h"

namespace lyre::worker {

size_t Worker::Impl::drain_inbox() {
  size_t taken = 0;
  Command command;
  while (taken < kCommandsPerPollMax && inbox.try_take(command)) {
    ++taken;
    switch (command.kind) {
      case Command::Kind::kAttach:
        attach(command);
        break;
      case Command::Kind::kDetach:
        detach(command.context);
        break;
      case Command::Kind::kShutdown:
        shut_down();
        break;
      case Command::Kind::kAddRegion:
        add_region(command);
        break;
      case Command::Kind::kRemoveRegion:
        begin_removal(command);
        break;
      case Command::Kind::kLinkUp:
        neighbours.on_link_up(command.port, now);
        break;
      case Command::Kind::kNone:
        break;
    }
  }
  return taken;
}

void Worker::Impl::post(Reply reply) {
  // The outbox has room for four replies of every context. Until the control thread has taken
  // kDetached it does not use the index again, and until then there are three at most: kExpelled,
  // kDetached, and one about memory, for a client is served one request about memory at a time.
  static_assert(Outbox::kCapacity >= 3 * kContextsMax + 1);
  LYRE_CHECK(outbox.try_post(reply));
  if (config.reply_fd >= 0) (void)!eventfd_write(config.reply_fd, 1);
}

void Worker::Impl::attach(const Command& command) {
  // The control thread uses an index again only after every worker answered kDetached.
  Context& context = contexts.open(command.context);
  context.attached = command;
  context.is_lent = command.is_lent;
  channel::RingPair& rings = *command.rings;
  context.submissions = {&rings.submission_indices, rings.submissions};
  context.completions = {&rings.completion_indices, rings.completions};
  context.copy_block_count = static_cast<uint32_t>(
      std::min<uint64_t>(command.copy_bytes / kCopyBlockBytes, kCopyBlocksMax));
  const uint8_t* arena = command.memory + command.arena_offset;
  context.has_region = memory.add_region(command.context, {arena, command.arena_bytes});
  if (!context.has_region) return expel(context, "the ports cannot be given its memory");
  client_memory.add_arena(command.context, arena, command.arena_bytes);
  region_segment_bytes[command.context] = memory.region_segment_bytes(command.context);
}

/// The client broke the channel's rules. The control thread hangs up on it and then detaches it;
/// until then nothing it wrote is looked at.
void Worker::Impl::expel(Context& context, const char* reason) {
  context.state = Context::State::kExpelled;
  stats.worker->clients_expelled.add(1);
  post({.kind = Reply::Kind::kExpelled, .context = contexts.index_of(context), .reason = reason});
}

void Worker::Impl::detach(uint32_t index) {
  Context& context = contexts[index];
  if (context.state == Context::State::kFree || context.state == Context::State::kDetaching) return;
  context.state = Context::State::kDetaching;
}

/// Gives up some of what a client that left had. Returns how much it looked at; 0: nothing is left.
size_t Worker::Impl::continue_detaching(uint32_t index) {
  Context& context = contexts[index];
  size_t count = 0;
  // Listeners first: without them no session comes any more.
  for (; !context.listeners.empty() && count < kListenersPerDetachStepMax; ++count) {
    close_listener(context, context.listeners.front());
  }
  if (count > 0) return count;
  for (; !context.sessions.empty() && count < kSessionsPerDetachStepMax; ++count) {
    leave_to_itself(context.sessions.front());
  }
  if (count > 0) return count;
  const uint32_t begin = context.slots_taken_back;
  const uint32_t end = std::min(memory.rx_slot_count(), begin + kSlotsPerDetachStepMax);
  for (uint32_t slot = begin; slot < end; ++slot) {
    if (loans.take_back(slot, index)) release_slot_memory(slot);
  }
  context.slots_taken_back = end;
  return end - begin;
}

/// A session whose client left. What the client had closed in order, with all bytes acknowledged,
/// may finish by itself.
void Worker::Impl::leave_to_itself(uint32_t conn) {
  const bool finishes_alone =
      session(conn).is_closed_by_client && session(conn).sends.piece_count == 0;
  if (!finishes_alone) abort_session(conn, channel::EndStatus::kAborted);
  if (engine.is_open(conn)) forget_context(conn);
  release_if_done(conn);
}

/// A context's memory may go when nothing of it is used and no port holds a piece of it.
size_t Worker::Impl::finish_detaching() {
  size_t finished = 0;
  for (size_t i = 0; i < contexts.in_use().size();) {
    const uint32_t index = contexts.in_use()[i];
    Context& context = contexts[index];
    if (context.state != Context::State::kDetaching) {
      ++i;
      continue;
    }
    const size_t given_up = continue_detaching(index);
    finished += given_up;
    if (given_up > 0 || !forget_memory(index)) {
      ++i;
      continue;
    }
    contexts.close(index);
    post({.kind = Reply::Kind::kDetached, .context = index});
    ++finished;
  }
  return finished;
}

/// The daemon stops: every session is reset and its client told, as far as its ring has room.
void Worker::Impl::shut_down() {
  is_shutting_down = true;
  shutdown_walk.begin();
}

size_t Worker::Impl::continue_shutdown() {
  if (!shutdown_walk.is_under_way()) return 0;
  const size_t count =
      shutdown_walk.step(engine.index_bound(), kConnectionsPerWalkStepMax, [this](uint32_t conn) {
        if (!engine.is_open(conn)) return;
        abort_session(conn, channel::EndStatus::kShutdown);
        release_if_done(conn);
      });
  for (Port& port : ports) port.flush();
  if (shutdown_walk.is_under_way()) return count;
  announce_all();
  post({.kind = Reply::Kind::kShutDown});
  return count + 1;
}

}  // namespace lyre::worker
