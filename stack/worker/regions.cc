#include <algorithm>

#include "stack/base/check.h"
#include "stack/channel/abi.h"
#include "stack/worker/clients/client_memory.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/impl.h"

/// Memory that clients registered: it comes, is sent from, and goes when no port can see it.
namespace lyre::worker {

static_assert(kRegionsMax == io::kRegionsMax && kContextsMax < kRegionsMax);

void Worker::Impl::add_region(const Command& command) {
  const uint32_t index = channel::region_index(command.region);
  // The control thread names an index anew only when every worker gave it up.
  LYRE_CHECK(index >= kContextsMax && client_memory.is_free(index));
  const bool is_added = contexts[command.context].state == Context::State::kAttached &&
                        memory.add_region(index, {.base = command.memory,
                                                  .bytes = command.memory_bytes,
                                                  .page_bytes = command.page_bytes});
  if (is_added) {
    client_memory.add(command.region, command.context, command.memory, command.memory_bytes);
    region_segment_bytes[index] = memory.region_segment_bytes(index);
  }
  post({.kind = is_added ? Reply::Kind::kRegionAdded : Reply::Kind::kRegionRefused,
        .context = command.context,
        .region = command.region});
}

void Worker::Impl::begin_removal(const Command& command) {
  // The control thread asks once for each name.
  if (client_memory.try_begin_leaving(command.region)) return;
  post({.kind = Reply::Kind::kRegionRemoved, .context = command.context, .region = command.region});
}

/// Registered memory goes when no session sends from it and no port holds a piece of it.
size_t Worker::Impl::finish_removals() {
  const uint32_t count = std::min(client_memory.leaving_count(), kLeavingRegionsPerPollMax);
  if (count == 0) return 0;
  size_t work = 0;
  for (Port& port : ports) port.reclaim();
  for (uint32_t i = 0; i < count; ++i) {
    ClientMemory::Region& region = client_memory.next_leaving();
    const uint32_t index = channel::region_index(region.name);
    work += end_senders(region);
    if (sends.pieces_of(index) > 0) continue;
    if (is_held_by_ports(index)) {
      nudge_ports();
      continue;
    }
    const Reply reply{.kind = Reply::Kind::kRegionRemoved,
                      .context = region.context,
                      .region = region.name};
    forget_region(index);
    post(reply);
    ++work;
  }
  return work;
}

/// Ends some of the sessions that would have to send from the region: bytes that cannot be sent
/// again cannot be promised. Returns how many connections it looked at.
uint32_t Worker::Impl::end_senders(ClientMemory::Region& region) {
  const uint32_t index = channel::region_index(region.name);
  const uint32_t bound = engine.index_bound();
  uint32_t count = 0;
  while (sends.pieces_of(index) > 0 && count < kConnectionsPerWalkStepMax &&
         region.searched_from < bound) {
    const uint32_t conn = region.searched_from++;
    ++count;
    if (!engine.is_open(conn) || session(conn).context != region.context) continue;
    if (!sends.names(session(conn).sends, index)) continue;
    abort_session(conn, channel::EndStatus::kDeregistered);
  }
  return count;
}

/// REQUIRES: no port holds a piece of it.
void Worker::Impl::forget_region(uint32_t index) {
  client_memory.remove(index);
  remove_from_ports(index);
}

/// REQUIRES: no port holds a piece of it.
void Worker::Impl::remove_from_ports(uint32_t index) {
  memory.remove_region(index);
  // This look also undoes the mapping for DMA.
  LYRE_CHECK(memory.region_holds(index) == 0);
}

/// Some of the memory of a context that gave up its sessions. True: nothing of it is left.
bool Worker::Impl::forget_memory(uint32_t context) {
  for (Port& port : ports) port.reclaim();
  for (uint32_t i = 0; i < kRegionsPerDetachStepMax; ++i) {
    const uint32_t index = client_memory.first_of(context);
    if (index == ClientMemory::kNone) break;
    if (is_held_by_ports(index)) return !nudge_ports();
    forget_region(index);
  }
  if (client_memory.first_of(context) != ClientMemory::kNone) return false;
  if (!contexts[context].has_region) return true;
  if (is_held_by_ports(context)) return !nudge_ports();
  client_memory.remove_arena(context);
  remove_from_ports(context);
  contexts[context].has_region = false;
  return true;
}

/// True while a port holds, or is still to be given, a piece of the region.
bool Worker::Impl::is_held_by_ports(uint32_t region) const {
  return memory.region_holds(region) > 0 || has_unsent_pieces(region);
}

/// True while a port may still read the arena, or any registered memory, of the context.
bool Worker::Impl::holds_memory_of(uint32_t context) {
  for (Port& port : ports) port.reclaim();
  if (is_held_by_ports(context)) return nudge_ports();
  for (uint32_t i = client_memory.first_of(context); i != ClientMemory::kNone;
       i = client_memory.next_of(i)) {
    if (is_held_by_ports(i)) return nudge_ports();
  }
  return false;
}

/// The same for what the session sent more than once.
bool Worker::Impl::holds_memory_of(const session::Session& waiting) {
  if (waiting.retransmitted_region == session::kManyRegions) {
    return holds_memory_of(waiting.context);
  }
  for (Port& port : ports) port.reclaim();
  const bool is_held =
      is_held_by_ports(waiting.context) || (waiting.retransmitted_region != session::kNoIndex &&
                                            is_held_by_ports(waiting.retransmitted_region));
  return is_held && nudge_ports();
}

/// Some drivers (virtio) look at what they have sent only when they send again: a wait that lasts
/// gets them something harmless to send. Returns true.
bool Worker::Impl::nudge_ports() {
  if (now - nudged_at < kNudgeInterval) return true;
  nudged_at = now;
  for (uint8_t port = 0; port < ports.size(); ++port) {
    if (const auto harmless = neighbours.announcement(port)) send_neighbour(*harmless);
  }
  return true;
}

/// True when a packet that the port has not taken yet names memory of the region.
bool Worker::Impl::has_unsent_pieces(uint32_t region) const {
  for (const Port& port : ports) {
    for (const io::PacketBuf* packet : port.waiting()) {
      for (uint32_t piece = 0; piece < packet->piece_count; ++piece) {
        if (packet->pieces[piece].region == region) return true;
      }
    }
  }
  return false;
}

}  // namespace lyre::worker
