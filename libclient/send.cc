#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "libclient/context.h"
#include "libclient/errors.h"

namespace {

using lyre::client::Arena;
using lyre::client::fail_static;

/// Size of a block of lyre_send(). The copy costs much more than the descriptor, and the block is
/// still in the cache when the worker reads it.
constexpr size_t kCopyBlockBytes = 64 * 1024;

static_assert(Arena::kBlockBytesMax == lyre::channel::kSendBytesMax);

/// Whether a session that has `own` of the `total` that all sessions share, and of which `free` is
/// left, may have more. An eighth is reserved for sessions that have none, so that peers that do
/// not read leave room for the others.
bool may_have_more(uint64_t own, uint64_t free, uint64_t total) {
  return own == 0 || own + total / 8 <= free;
}

constexpr const char* kRingFull = "the worker's submission ring is full";

/// LYRE_E_AGAIN where other sessions have what all share: LYRE_EVENT_WRITABLE tells when to try
/// again. Where the session has too much of its own under way, LYRE_EVENT_SENT tells.
/// What it waits for may be in a series of submissions that no worker was woken for.
int refuse(lyre_session& session, const char* text) {
  lyre_wake_workers(session.context);
  session.context->ready().note_refusal(session);
  return fail_static(LYRE_E_AGAIN, text);
}

/// 0 when the session and the context may have one more send under way, else the code to return.
int check_send_count(lyre_session& session) {
  constexpr uint64_t kTotal = lyre::channel::kSendsPerContextMax;
  const uint64_t own = session.sends.size();
  if (own >= lyre::channel::kSendsOutstandingMax) {
    lyre_wake_workers(session.context);
    return fail_static(LYRE_E_AGAIN, "the session has too many sends under way");
  }
  const uint64_t free = kTotal - session.context->send_totals().under_way;
  if (__builtin_expect(free > 0 && may_have_more(own, free, kTotal), 1)) return 0;
  return refuse(session, "the context has too many sends under way");
}

/// 0 when a send is possible now, else the code to return.
int check_can_send(lyre_session& session) {
  if (const int code = session.context->check(); code != 0) return code;
  if (__builtin_expect(session.state == LYRE_OPEN && !session.is_send_shut, 1)) {
    return check_send_count(session);
  }
  if (session.error != 0) return session.fail();
  return fail_static(LYRE_E_NOTCONNECTED, session.state == LYRE_CONNECTING
                                              ? "the handshake is not finished"
                                              : "sending is over on this session");
}

/// Memory of a send.
struct Place {
  uint64_t offset = 0;
  uint32_t region = 0;  ///< 0: the arena
};

/// REQUIRES: check_can_send(). False when the submission ring is full.
bool submit(lyre_session& session, const Place& place, uint32_t bytes, uint64_t tag) {
  lyre::channel::Submission entry;
  entry.op = lyre::channel::Op::kSend;
  entry.copied_bytes = lyre::client::to_tell(session.untold_copies.tx_bytes);
  entry.session = session.name;
  entry.body.send = {.region = place.region, .bytes = bytes, .offset = place.offset};
  if (!session.context->worker(session.worker).try_submit(entry)) return false;
  session.untold_copies.tx_bytes -= entry.copied_bytes;
  session.sends.push({place.offset, tag, bytes, place.region});
  session.unacked_bytes += bytes;
  if (place.region == 0) {
    session.arena_bytes += Arena::block_bytes_for(bytes);
  } else {
    ++session.region_sends;
  }
  ++session.context->send_totals().under_way;
  return true;
}

/// The arena never has a block of `bytes`.
int fail_too_large(const Arena& arena, uint64_t bytes) {
  return lyre::client::fail(LYRE_E_INVALID,
                            "a block of %" PRIu64 " bytes: an arena of %" PRIu64
                            " bytes (lyre_options.arena_bytes) has blocks of at most %" PRIu64,
                            bytes, arena.bytes(), arena.largest_block_bytes());
}

/// Copies `bytes` into the arena and sends them from there. LYRE_E_AGAIN: nothing was sent.
int submit_copy(lyre_session& session, const uint8_t* data, uint32_t bytes, uint64_t tag) {
  lyre_context& context = *session.context;
  Arena& arena = context.arena();
  if (bytes > arena.largest_block_bytes()) return fail_too_large(arena, bytes);
  if (!may_have_more(session.arena_bytes, arena.free_bytes(), arena.bytes())) {
    return refuse(session, "the session has its share of the arena");
  }
  const uint64_t offset = arena.alloc(bytes);
  if (offset == Arena::kNone) return refuse(session, "the arena is full");
  std::memcpy(context.memory().arena() + offset, data, bytes);
  session.untold_copies.tx_bytes += bytes;
  if (submit(session, {.offset = offset}, bytes, tag)) return 0;
  session.untold_copies.tx_bytes -= bytes;
  arena.free(offset);
  return refuse(session, kRingFull);
}

uint64_t arena_offset(const lyre_context& context, const void* data) {
  return static_cast<uint64_t>(static_cast<const uint8_t*>(data) - context.memory().arena());
}

}  // namespace

int64_t lyre_send(lyre_session* session, const void* data, size_t bytes) {
  if (session == nullptr || (data == nullptr && bytes > 0)) {
    return fail_static(LYRE_E_INVALID, "no session, or no data");
  }
  const size_t part_max =
      std::min<size_t>(kCopyBlockBytes, session->context->arena().largest_block_bytes());
  size_t taken = 0;
  int code = check_can_send(*session);
  while (code == 0 && taken < bytes) {
    const size_t part = std::min(bytes - taken, part_max);
    code = submit_copy(*session, static_cast<const uint8_t*>(data) + taken,
                       static_cast<uint32_t>(part), 0);
    if (code != 0) break;
    taken += part;
    if (taken < bytes) code = check_can_send(*session);
  }
  return taken > 0 || code == 0 ? static_cast<int64_t>(taken) : code;
}

int lyre_block_alloc(lyre_context* context, size_t bytes, lyre_block* out) {
  if (context == nullptr || out == nullptr || bytes == 0 || bytes > Arena::kBlockBytesMax) {
    return fail_static(LYRE_E_INVALID, "a block has 1 byte to 4 MiB");
  }
  if (const int code = context->check(); code != 0) return code;
  if (bytes > context->arena().largest_block_bytes()) {
    return fail_too_large(context->arena(), bytes);
  }
  const uint64_t offset = context->arena().alloc(bytes);
  if (offset == Arena::kNone) {
    lyre_wake_workers(context);
    return fail_static(LYRE_E_AGAIN, "the arena is full");
  }
  out->data = context->memory().arena() + offset;
  out->bytes = context->arena().block_bytes(offset);
  return 0;
}

void lyre_block_free(lyre_context* context, const lyre_block* block) {
  if (context == nullptr || block == nullptr || block->data == nullptr) return;
  if (context->arena().free(arena_offset(*context, block->data))) context->ready().note_room();
}

int lyre_send_block(lyre_session* session, const lyre_block* block, size_t bytes, uint64_t tag) {
  if (session == nullptr || block == nullptr || bytes == 0) {
    return fail_static(LYRE_E_INVALID, "no session, no block or no bytes");
  }
  const uint64_t offset = arena_offset(*session->context, block->data);
  if (bytes > session->context->arena().block_bytes(offset)) {
    return fail_static(LYRE_E_INVALID, "not a block of this context, or more bytes than it has");
  }
  if (const int code = check_can_send(*session); code != 0) return code;
  if (submit(*session, {.offset = offset}, static_cast<uint32_t>(bytes), tag)) return 0;
  return refuse(*session, kRingFull);
}

int lyre_send_region(lyre_session* session, lyre_region* region, const void* data, size_t bytes,
                     uint64_t tag) {
  if (session == nullptr || region == nullptr || region->context != session->context) {
    return fail_static(LYRE_E_INVALID, "no session, or no region of its context");
  }
  const auto* first = static_cast<const uint8_t*>(data);
  const bool is_inside = first >= region->begin && bytes <= region->bytes &&
                         static_cast<uint64_t>(first - region->begin) <= region->bytes - bytes;
  if (!is_inside || bytes == 0 || bytes > lyre::channel::kSendBytesMax) {
    return fail_static(LYRE_E_INVALID, "1 byte to 4 MiB of the region can be sent at a time");
  }
  if (const int code = check_can_send(*session); code != 0) return code;
  const auto count = static_cast<uint32_t>(bytes);
  if (region->name == 0) return submit_copy(*session, first, count, tag);
  const uint64_t offset = region->begin_offset + static_cast<uint64_t>(first - region->begin);
  if (submit(*session, {.offset = offset, .region = region->name}, count, tag)) return 0;
  return refuse(*session, kRingFull);
}

uint64_t lyre_next_sent(lyre_session* session) {
  if (session == nullptr || session->tags.is_empty()) return 0;
  return session->tags.pop();
}

uint64_t lyre_unacked_bytes(const lyre_session* session) {
  return session != nullptr ? session->unacked_bytes : 0;
}

uint64_t lyre_rtt_min_us(const lyre_session* session) {
  return session != nullptr ? session->rtt_min_us : 0;
}

uint64_t lyre_rto_us(const lyre_session* session) {
  return session != nullptr ? session->rto_us : 0;
}

int lyre_is_window_closed(const lyre_session* session) {
  return session != nullptr && session->is_window_closed ? 1 : 0;
}
