#include "stack/worker/region_lifecycle.h"

#include <algorithm>

#include "stack/base/check.h"
#include "stack/channel/abi.h"
#include "stack/io/packet_io.h"
#include "stack/worker/port.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

void RegionLifecycle::add(const Command& command) {
  const uint32_t index = channel::region_index(command.region);
  // The control thread names an index anew only when every worker gave it up.
  LYRE_CHECK(index >= kContextsMax && state_.client_memory.is_free(index));
  const bool is_added = state_.contexts[command.context].state == Context::State::kAttached &&
                        state_.memory.add_region(index, {.base = command.memory,
                                                         .bytes = command.memory_bytes,
                                                         .page_bytes = command.page_bytes});
  if (is_added) {
    state_.client_memory.add(command.region, command.context, command.memory, command.memory_bytes);
    state_.region_segment_bytes[index] = state_.memory.region_segment_bytes(index);
  }
  parts_.replies.post({.kind = is_added ? Reply::Kind::kRegionAdded : Reply::Kind::kRegionRefused,
                       .context = command.context,
                       .region = command.region});
}

void RegionLifecycle::begin_removal(const Command& command) {
  // The control thread asks once for each name.
  if (state_.client_memory.try_begin_leaving(command.region)) return;
  parts_.replies.post(
      {.kind = Reply::Kind::kRegionRemoved, .context = command.context, .region = command.region});
}

/// Registered memory goes when no session sends from it and no port holds a piece of it.
size_t RegionLifecycle::finish_removals() {
  const uint32_t count = std::min(state_.client_memory.leaving_count(), kLeavingRegionsPerPollMax);
  if (count == 0) return 0;
  size_t work = 0;
  reclaim();
  for (uint32_t i = 0; i < count; ++i) {
    ClientMemory::Region& region = state_.client_memory.next_leaving();
    const uint32_t index = channel::region_index(region.name);
    work += end_senders(region);
    if (state_.sends.pieces_of(index) > 0) continue;
    if (is_held_by_ports(index)) {
      nudge_ports();
      continue;
    }
    const Reply reply{
        .kind = Reply::Kind::kRegionRemoved, .context = region.context, .region = region.name};
    forget_region(index);
    parts_.replies.post(reply);
    ++work;
  }
  return work;
}

/// Ends some of the sessions that would have to send from the region: bytes that cannot be sent
/// again cannot be promised. Returns how many connections it looked at.
uint32_t RegionLifecycle::end_senders(ClientMemory::Region& region) {
  const uint32_t index = channel::region_index(region.name);
  const uint32_t bound = state_.engine.index_bound();
  uint32_t count = 0;
  while (state_.sends.pieces_of(index) > 0 && count < kConnectionsPerWalkStepMax &&
         region.searched_from < bound) {
    const uint32_t conn = region.searched_from++;
    ++count;
    if (!state_.engine.is_open(conn) || state_.session(conn).context != region.context) continue;
    if (!state_.sends.names(state_.session(conn).sends, index)) continue;
    parts_.lifecycle.abort(conn, channel::EndStatus::kDeregistered);
  }
  return count;
}

/// REQUIRES: no port holds a piece of it.
void RegionLifecycle::forget_region(uint32_t index) {
  state_.client_memory.remove(index);
  remove_from_ports(index);
}

/// REQUIRES: no port holds a piece of it.
void RegionLifecycle::remove_from_ports(uint32_t index) {
  state_.memory.remove_region(index);
  // This look also undoes the mapping for DMA.
  LYRE_CHECK(state_.memory.region_holds(index) == 0);
}

bool RegionLifecycle::try_forget_memory(uint32_t context) {
  reclaim();
  for (uint32_t i = 0; i < kRegionsPerDetachStepMax; ++i) {
    const uint32_t index = state_.client_memory.first_of(context);
    if (index == ClientMemory::kNone) break;
    if (is_held_by_ports(index)) {
      nudge_ports();
      return false;
    }
    forget_region(index);
  }
  if (state_.client_memory.first_of(context) != ClientMemory::kNone) return false;
  if (!state_.contexts[context].has_region) return true;
  if (is_held_by_ports(context)) {
    nudge_ports();
    return false;
  }
  state_.client_memory.remove_arena(context);
  remove_from_ports(context);
  state_.contexts[context].has_region = false;
  return true;
}

void RegionLifecycle::reclaim() {
  for (Port& port : state_.ports) port.reclaim();
}

/// True while a port holds, or is still to be given, a piece of the region.
bool RegionLifecycle::is_held_by_ports(uint32_t region) const {
  return state_.memory.region_holds(region) > 0 || has_unsent_pieces(region);
}

/// True while a port may still read the arena, or any registered memory, of the context.
bool RegionLifecycle::holds_memory_of_context(uint32_t context) {
  if (is_held_by_ports(context)) return true;
  for (uint32_t i = state_.client_memory.first_of(context); i != ClientMemory::kNone;
       i = state_.client_memory.next_of(i)) {
    if (is_held_by_ports(i)) return true;
  }
  return false;
}

bool RegionLifecycle::holds_memory_of(const session::Session& waiting) {
  reclaim();
  const uint32_t region = waiting.retransmitted_region;
  const bool is_held = region == session::kManyRegions
                           ? holds_memory_of_context(waiting.context)
                           : is_held_by_ports(waiting.context) ||
                                 (region != session::kNoIndex && is_held_by_ports(region));
  if (is_held) nudge_ports();
  return is_held;
}

/// Some drivers (virtio) look at what they have sent only when they send again. While a wait lasts
/// they are given something harmless to send.
void RegionLifecycle::nudge_ports() {
  if (state_.now - nudged_at_ < kNudgeInterval) return;
  nudged_at_ = state_.now;
  for (uint8_t port = 0; port < state_.ports.size(); ++port) {
    if (const auto harmless = state_.neighbours.announcement(port)) {
      parts_.output.send_neighbour(*harmless);
    }
  }
}

/// True when a packet that the port has not taken yet names memory of the region.
bool RegionLifecycle::has_unsent_pieces(uint32_t region) const {
  for (const Port& port : state_.ports) {
    for (const io::PacketBuf* packet : port.waiting()) {
      for (uint32_t piece = 0; piece < packet->piece_count; ++piece) {
        if (packet->pieces[piece].region == region) return true;
      }
    }
  }
  return false;
}

}  // namespace lyre::worker
