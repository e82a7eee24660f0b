#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "stack/channel/abi.h"
#include "stack/session/session.h"
#include "stack/tcp/engine.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/impl.h"

/// What clients are told. A session remembers what its client must still hear; here it is written
/// to the completion ring as far as there is room.
namespace lyre::worker {

namespace {

void put_endpoints(channel::Completion& entry, uint64_t cookie, const FourTuple& tuple) {
  auto& opened = entry.body.opened;
  opened.cookie = cookie;
  std::memcpy(opened.local_address, tuple.local.address.bytes.data(), 16);
  std::memcpy(opened.remote_address, tuple.remote.address.bytes.data(), 16);
  opened.local_port = tuple.local.port;
  opened.remote_port = tuple.remote.port;
}

}  // namespace

void Worker::Impl::mark_dirty(uint32_t conn) {
  const session::Session& dirty = session(conn);
  if (dirty.dirty_link.is_linked() || dirty.context == session::kNoContext) return;
  contexts[dirty.context].dirty.push_back(sessions, conn);
}

void Worker::Impl::remove_dirty(uint32_t conn) {
  const session::Session& clean = session(conn);
  if (clean.dirty_link.is_linked()) contexts[clean.context].dirty.remove(sessions, conn);
}

size_t Worker::Impl::announce_all() {
  size_t told = 0;
  has_untold = false;
  for (uint32_t index : contexts.in_use()) {
    Context& context = contexts[index];
    if (context.state != Context::State::kAttached) continue;
    context.waits_for_holds = false;
    // A session that must wait is put back, behind these, for the next turn.
    for (uint32_t left = context.dirty.size(); left > 0 && !context.dirty.empty(); --left) {
      const uint32_t conn = context.dirty.front();
      context.dirty.remove(sessions, conn);
      const bool is_told = announce(context, conn);
      if (!is_told) mark_dirty(conn);
      has_untold |= !is_told;
      told += is_told;
    }
    if (context.completions.is_broken()) expel(context, "completion ring index out of range");
  }
  ring_doorbells();
  return told;
}

/// Tells the session's client all there is. False: not all could be told now.
bool Worker::Impl::announce(Context& context, uint32_t conn) {
  session::Session& told = session(conn);
  if (told.must_announce_open) {
    if (context.completions.room() == 0) return false;
    const auto event = told.is_passive ? channel::Event::kAccepted : channel::Event::kConnected;
    answer_open(context, event, channel::EndStatus::kOk, told.cookie, name_of(conn),
                engine.tuple(conn));
    told.must_announce_open = false;
    told.was_announced = true;
    if (told.is_passive) leave_listener(conn);
  }
  if (must_wait_for_holds(context, told)) return false;
  if (told.must_announce_progress || told.has_unannounced_sends()) {
    if (context.completions.room() == 0) return false;
    announce_sends(context, conn);
  }
  while (told.has_readable) {
    if (!announce_data(context, conn)) return false;
  }
  if (told.must_announce_finish) {
    if (context.completions.room() == 0) return false;
    push(context, {.event = channel::Event::kPeerFinished, .session = name_of(conn)});
    told.must_announce_finish = false;
  }
  return !told.must_announce_end || announce_end(context, conn);
}

void Worker::Impl::announce_sends(Context& context, uint32_t conn) {
  session::Session& told = session(conn);
  channel::Completion entry{.event = channel::Event::kSendDone, .session = name_of(conn)};
  const int64_t rtt_min_us = (engine.rtt_min(conn).value + 999) / 1000;
  entry.body.send_done = {.descriptors = told.sends.finished_count,
                          .acked_bytes = told.sends.head_acked_bytes,
                          .rtt_min_us = static_cast<uint32_t>(rtt_min_us)};
  push(context, entry);
  told.announced_sends = static_cast<uint32_t>(told.sends.finished_count);
  told.sends_announced_at = now;
  told.must_announce_progress = false;
}

bool Worker::Impl::announce_end(Context& context, uint32_t conn) {
  session::Session& ended = session(conn);
  if (context.completions.room() == 0) return false;
  if (!ended.was_announced) {
    answer_open(context, channel::Event::kConnectFailed, ended.end_status, ended.cookie, {},
                engine.tuple(conn));
  } else {
    push(context,
         {.event = channel::Event::kEnded, .status = ended.end_status, .session = name_of(conn)});
  }
  forget_context(conn);
  release_if_done(conn);
  return true;
}

/// An ACK proves that the port has read the bytes that it acknowledges, but not that it let go of
/// copies that were sent again. Then the client gets its memory back only once the port holds
/// nothing of it; meanwhile nothing more of that client is handed to a port, so the wait is short.
bool Worker::Impl::must_wait_for_holds(Context& context, session::Session& waiting) {
  if (!waiting.was_retransmitted) return false;
  const bool has_news = waiting.has_unannounced_sends() || waiting.must_announce_end;
  if (!has_news) return false;
  if (holds_memory_of(waiting)) {
    context.waits_for_holds = true;
    return true;
  }
  if (waiting.sends.piece_count == 0) {
    waiting.was_retransmitted = false;
    waiting.retransmitted_region = session::kNoIndex;
  }
  return false;
}

/// One completion with payload. False: no room in the ring, or nothing may be lent now.
bool Worker::Impl::announce_data(Context& context, uint32_t conn) {
  if (context.completions.room() == 0) return false;
  channel::Completion entry{.event = channel::Event::kData, .session = name_of(conn)};
  const bool is_low = loans.is_low(memory.rx_slots_free());
  bool is_done = context.is_lent && !is_low && lend_some(conn, entry);
  if (!is_done && entry.count == 0) is_done = copy_some(context, conn, entry);
  if (!is_done && entry.count == 0 && context.is_lent) is_done = lend_some(conn, entry);
  if (entry.count > 0) push(context, entry);
  if (is_done) session(conn).has_readable = false;
  return is_done || entry.count > 0;
}

/// Fills `entry` with lent slots. True: the session has nothing more to read.
bool Worker::Impl::lend_some(uint32_t conn, channel::Completion& entry) {
  session::Session& reader = session(conn);
  entry.pool = static_cast<uint8_t>(config.index);
  while (entry.count < channel::kLentSlicesMax) {
    if (!loans.may_lend(reader.context, reader.lent_slots)) return false;
    const auto slice = take_slice(conn);
    if (!slice) return true;
    const uint32_t slot = slice->handle.slot;
    const uint8_t* bytes = memory.rx_packet(slot)->data + slice->offset;
    entry.body.data[entry.count++] = {
        .slot = slot,
        .bytes = slice->length,
        .offset = static_cast<uint64_t>(bytes - memory.rx_memory().data())};
    loans.lend(slot, {.context = reader.context, .session = conn, .generation = reader.generation});
    ++reader.lent_slots;
    stats.worker->tcp_payload_in.add(slice->length);
  }
  return false;
}

/// Fills `entry` with copies, for clients outside the trust domain and when the pool runs low.
/// True: the session has nothing more to read.
bool Worker::Impl::copy_some(Context& context, uint32_t conn, channel::Completion& entry) {
  session::Session& reader = session(conn);
  uint32_t block = 0;
  while (block < context.copy_block_count && context.copy_blocks[block].is_used) ++block;
  if (block == context.copy_block_count) return false;
  const uint64_t offset = context.attached.copy_offset + uint64_t{block} * kCopyBlockBytes;
  uint8_t* target = context.attached.memory + offset;
  uint32_t used = 0;
  uint32_t charge = 0;
  bool is_done = false;
  while (used + memory.rx_slot_bytes() <= kCopyBlockBytes) {
    const auto slice = take_slice(conn);
    is_done = !slice;
    if (is_done) break;
    io::PacketBuf* packet = memory.rx_packet(slice->handle.slot);
    std::memcpy(target + used, packet->data + slice->offset, slice->length);
    memory.release({&packet, 1});
    used += slice->length;
    charge += memory.rx_slot_bytes();
  }
  if (used == 0) return is_done;
  context.copy_blocks[block] = {
      .is_used = true, .session = conn, .generation = reader.generation, .charge_bytes = charge};
  entry.pool = channel::kPoolContext;
  entry.body.data[entry.count++] = {.slot = block | kCopySlotBit, .bytes = used, .offset = offset};
  reader.copied_rx_bytes += used;
  stats.worker->copied_rx_bytes.add(used);
  stats.worker->tcp_payload_in.add(used);
  return is_done;
}

const char* Worker::Impl::answer_open(Context& context, channel::Event event,
                                      channel::EndStatus status, uint64_t cookie,
                                      channel::SessionName name, const FourTuple& tuple) {
  channel::Completion entry{.event = event, .status = status, .session = name};
  put_endpoints(entry, cookie, tuple);
  push(context, entry);
  return nullptr;
}

void Worker::Impl::push(Context& context, const channel::Completion& entry) {
  context.completions.push(entry);
  stats.worker->completions.add(1);
}

void Worker::Impl::ring_doorbells() {
  for (uint32_t index : contexts.in_use()) {
    Context& context = contexts[index];
    if (!context.completions.has_unpublished()) continue;
    context.completions.publish();
    std::atomic<uint32_t>& sleeps = context.header().client_sleeps;
    if (!channel::must_ring(sleeps)) continue;
    sleeps.store(0, std::memory_order_relaxed);  // one ring a sleep is enough
    // The descriptor does not block; that it is full already means the client will wake.
    (void)!eventfd_write(context.attached.wake_fd, 1);
  }
}

}  // namespace lyre::worker
