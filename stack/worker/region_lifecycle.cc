#include "stack/worker/region_lifecycle.h"

#include <algorithm>

#include "stack/base/check.h"
#include "stack/channel/abi.h"
#include "stack/io/packet_io.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

void RegionLifecycle::add(const Command& command) {
  const bool is_added = try_add(command);
  parts_.replies.post({.kind = is_added ? Reply::Kind::kRegionAdded : Reply::Kind::kRegionRefused,
                       .context = command.context,
                       .region = command.region});
}

bool RegionLifecycle::try_add(const Command& command) {
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
  return is_added;
}

void RegionLifecycle::begin_removal(const Command& command) {
  // The control thread asks once for each name.
  if (state_.client_memory.try_begin_leaving(command.region)) return;
  parts_.replies.post(
      {.kind = Reply::Kind::kRegionRemoved, .context = command.context, .region = command.region});
}

/// Registered memory goes when no session sends from it and no port holds a piece of it.
size_t RegionLifecycle::finish_removals() {
  size_t work = look_at_held_back();
  const uint32_t count = std::min(state_.client_memory.leaving_count(), kLeavingRegionsPerPollMax);
  for (uint32_t i = 0; i < count; ++i) {
    ClientMemory::Region& region = state_.client_memory.next_leaving();
    const uint32_t index = channel::region_index(region.name);
    work += end_senders(region);
    if (state_.sends.pieces_of(index) > 0) continue;
    if (parts_.holds.is_held(index)) {
      parts_.holds.hold_back(index);
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

/// Checks regions that ports held, after these freed packets. Returns how many are held no longer.
size_t RegionLifecycle::look_at_held_back() {
  const uint32_t look = parts_.holds.look();
  size_t let_go = 0;
  for (uint32_t i = 0; i < kLeavingRegionsPerPollMax; ++i) {
    if (!state_.client_memory.has_unlooked(look)) break;
    const uint32_t index = state_.client_memory.next_unlooked(look);
    if (parts_.holds.is_held(index)) continue;
    state_.client_memory.let_go(index);
    ++let_go;
  }
  return let_go;
}

/// Ends some of the sessions that would have to send from the region: their bytes could not be
/// retransmitted. Returns how many connections it looked at.
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
  if (waits_for_port(state_.contexts[context])) return false;
  for (uint32_t i = 0; i < kRegionsPerDetachStepMax; ++i) {
    const uint32_t index = state_.client_memory.first_of(context);
    if (index == ClientMemory::kNone) break;
    if (is_held_back(context, index)) return false;
    forget_region(index);
  }
  if (state_.client_memory.first_of(context) != ClientMemory::kNone) return false;
  if (!state_.contexts[context].has_region) return true;
  if (is_held_back(context, context)) return false;
  state_.client_memory.remove_arena(context);
  remove_from_ports(context);
  state_.contexts[context].has_region = false;
  return true;
}

/// A region of a context that is being detached: true, and the context waits, when a port holds it.
bool RegionLifecycle::is_held_back(uint32_t context, uint32_t region) {
  if (!parts_.holds.is_held(region)) return false;
  parts_.holds.hold_back(region);
  state_.contexts[context].held_region = region;
  return true;
}

}  // namespace lyre::worker
