#include <algorithm>

#include "stack/base/buf_ref.h"
#include "stack/base/check.h"
#include "stack/channel/abi.h"
#include "stack/worker/clients/client_region.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/impl.h"

/// Memory that clients registered: it comes, is sent from, and goes when no port can see it.
namespace lyre::worker {

static_assert(kRegionsMax == io::kRegionsMax && kContextsMax < kRegionsMax);

void Worker::Impl::add_region(const Command& command) {
  const uint32_t index = channel::region_index(command.region);
  // The control thread names an index anew only when every worker gave it up.
  LYRE_CHECK(index >= kContextsMax && regions[index].name == 0);
  Context& context = contexts[command.context];
  const bool is_added = context.state == Context::State::kAttached &&
                        memory.add_region(index, {.base = command.memory,
                                                  .bytes = command.memory_bytes,
                                                  .page_bytes = command.page_bytes});
  if (is_added) {
    region_segment_bytes[index] = memory.region_segment_bytes(index);
    regions[index] = {.name = command.region,
                      .context = command.context,
                      .base = command.memory,
                      .bytes = command.memory_bytes};
    context.regions.push_front(regions, index);
  }
  post({.kind = is_added ? Reply::Kind::kRegionAdded : Reply::Kind::kRegionRefused,
        .context = command.context,
        .region = command.region});
}

/// Nothing more is sent from the region. A session that would have to is over: bytes that cannot
/// be sent again cannot be promised.
void Worker::Impl::begin_removal(const Command& command) {
  const uint32_t index = channel::region_index(command.region);
  ClientRegion& region = regions[index];
  if (region.name != command.region) {
    return post({.kind = Reply::Kind::kRegionRemoved,
                 .context = command.context,
                 .region = command.region});
  }
  LYRE_CHECK(!region.is_leaving);  // the control thread asks once for each name
  region.is_leaving = true;
  leaving.push_back(index);
  const auto& owned = contexts[region.context].sessions;
  uint32_t conn = owned.front();
  while (conn != session::kNoIndex && sends.pieces_of(index) > 0) {
    const uint32_t next = owned.next(sessions, conn);
    if (sends.names(session(conn).sends, index)) {
      abort_session(conn, channel::EndStatus::kDeregistered);
    }
    conn = next;
  }
}

size_t Worker::Impl::finish_removals() {
  size_t finished = 0;
  for (size_t i = 0; i < leaving.size();) {
    const uint32_t index = leaving[i];
    const ClientRegion region = regions[index];
    // Its context may have gone meanwhile, and taken the region with it.
    const bool is_gone = region.name == 0 || !region.is_leaving;
    if (!is_gone && (sends.pieces_of(index) > 0 || is_held_by_ports(index))) {
      nudge_ports();
      ++i;
      continue;
    }
    leaving[i] = leaving.back();
    leaving.pop_back();
    if (is_gone) continue;
    forget_region(index);
    post({.kind = Reply::Kind::kRegionRemoved, .context = region.context, .region = region.name});
    ++finished;
  }
  return finished;
}

/// REQUIRES: no port holds a piece of it.
void Worker::Impl::forget_region(uint32_t index) {
  ClientRegion& region = regions[index];
  contexts[region.context].regions.remove(regions, index);
  memory.remove_region(index);
  // The caller saw that no port holds a piece. This look also undoes the mapping for DMA.
  LYRE_CHECK(memory.region_holds(index) == 0);
  region = ClientRegion{};
}

/// Where a kSend points. `out` is left alone, and nullptr returned, when the region was
/// deregistered while the entry was under way.
const char* Worker::Impl::locate_send(const Context& context, const channel::Submission& entry,
                                      std::optional<BufRef>& out) const {
  const auto& send = entry.body.send;
  uint64_t region_bytes = context.attached.arena_bytes;
  uint32_t index = contexts.index_of(context);
  if (send.region != 0) {
    index = channel::region_index(send.region);
    if (index < kContextsMax) return "kSend names what is no region";
    const ClientRegion& region = regions[index];
    if (region.name != send.region || region.is_leaving) return nullptr;
    if (region.context != contexts.index_of(context)) return "kSend names another client's region";
    region_bytes = region.bytes;
  }
  if (send.offset > region_bytes || send.bytes > region_bytes - send.offset) {
    return send.region == 0 ? "kSend points outside the arena" : "kSend points outside its region";
  }
  out = BufRef{.region = index, .length = send.bytes, .offset = send.offset};
  return nullptr;
}

const uint8_t* Worker::Impl::bytes_of(const BufRef& piece) const {
  if (piece.region >= kContextsMax) return regions[piece.region].base + piece.offset;
  const Command& attached_as = contexts[piece.region].attached;
  return attached_as.memory + attached_as.arena_offset + piece.offset;
}

/// True while a port holds, or is still to be given, a piece of the region.
bool Worker::Impl::is_held_by_ports(uint32_t region) {
  for (Port& port : ports) port.reclaim();
  return memory.region_holds(region) > 0 || has_unsent_pieces(region);
}

/// True while a port may still read the arena, or any registered memory, of the context.
bool Worker::Impl::holds_memory_of(uint32_t context) {
  if (is_held_by_ports(context)) return nudge_ports();
  const auto& owned = contexts[context].regions;
  for (uint32_t i = owned.front(); i != session::kNoIndex; i = owned.next(regions, i)) {
    if (memory.region_holds(i) > 0 || has_unsent_pieces(i)) return nudge_ports();
  }
  return false;
}

/// The same for what the session sent more than once.
bool Worker::Impl::holds_memory_of(const session::Session& waiting) {
  if (waiting.retransmitted_region == session::kManyRegions) {
    return holds_memory_of(waiting.context);
  }
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
