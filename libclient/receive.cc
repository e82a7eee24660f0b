#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "libclient/context.h"
#include "libclient/errors.h"

namespace {

using lyre::client::fail_static;
using lyre::client::UnreadSlice;

/// The result of a receiving call when there are no bytes.
int nothing_left(const lyre_session& session) {
  if (session.is_peer_finished) return 0;
  if (session.error != 0) return session.fail();
  if (session.state == LYRE_ENDED) return 0;
  return fail_static(LYRE_E_AGAIN, "nothing has arrived");
}

/// The daemon disconnects the client. It says why when all workers have let go of its memory.
int fail_revoked(lyre_context& context) {
  context.read_control();
  if (context.check() == 0) {
    lyre::client::fail_untold(context, "the daemon took back the receive memory that it had lent");
  }
  return context.check();
}

/// The context's check(), after received bytes were read: unless it is 0, they may be those of
/// other packets.
int check_lent(lyre_context& context) {
  // Acquire: pairs with the fence in ContextLifecycle::revoke_loans(). As in a seqlock, the bytes
  // are read before the word is.
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool is_revoked = context.memory().header().revoked.load(std::memory_order_relaxed) != 0;
  return __builtin_expect(is_revoked, 0) ? fail_revoked(context) : context.check();
}

}  // namespace

int lyre_recv_slices(lyre_session* session, lyre_slice* out, int count) {
  if (session == nullptr || out == nullptr || count <= 0) {
    return fail_static(LYRE_E_INVALID, "no session, or no place for its slices");
  }
  if (const int code = check_lent(*session->context); code != 0) return code;
  if (session->received.is_empty()) return nothing_left(*session);
  int taken = 0;
  while (taken < count && !session->received.is_empty()) {
    const UnreadSlice run = session->received.pop();
    out[taken++] = {run.data, run.bytes, run.slot};
    session->held_slots.push(run.slot);
    session->readable_bytes -= run.bytes;
  }
  return taken;
}

void lyre_release(lyre_session* session, const lyre_slice* slices, int count) {
  if (session == nullptr || slices == nullptr) return;
  for (int i = 0; i < count; ++i) {
    // Only slots that are held: the daemon disconnects a client that releases a slot twice.
    if (!session->held_slots.remove(slices[i].token)) continue;
    session->context->release_slot(*session, slices[i].token);
  }
  session->context->worker(session->worker).flush_releases();
}

int64_t lyre_recv(lyre_session* session, void* out, size_t bytes) {
  if (session == nullptr || out == nullptr || bytes == 0) {
    return fail_static(LYRE_E_INVALID, "no session, or no place for its bytes");
  }
  lyre_context& context = *session->context;
  if (const int code = context.check(); code != 0) return code;
  if (session->received.is_empty()) return nothing_left(*session);
  size_t taken = 0;
  while (taken < bytes && !session->received.is_empty()) {
    UnreadSlice& run = session->received.front();
    const size_t part = std::min(bytes - taken, size_t{run.bytes});
    std::memcpy(static_cast<uint8_t*>(out) + taken, run.data, part);
    taken += part;
    session->untold_copies.rx_bytes += part;
    run.data += part;
    run.bytes -= static_cast<uint32_t>(part);
    if (run.bytes == 0) context.release_slot(*session, session->received.pop().slot);
  }
  session->readable_bytes -= taken;
  if (const int code = check_lent(context); code != 0) return code;
  // The reader has taken all bytes: give its slots back although the entry is not full.
  if (session->received.is_empty()) context.worker(session->worker).flush_releases();
  return static_cast<int64_t>(taken);
}

int lyre_check_slices(lyre_session* session) {
  if (session == nullptr) return fail_static(LYRE_E_INVALID, "no session");
  return check_lent(*session->context);
}

void lyre_count_copied(lyre_session* session, uint64_t tx_bytes, uint64_t rx_bytes) {
  if (session == nullptr) return;
  session->untold_copies.tx_bytes += tx_bytes;
  session->untold_copies.rx_bytes += rx_bytes;
}

uint64_t lyre_readable_bytes(const lyre_session* session) {
  return session != nullptr && session->context->check() == 0 ? session->readable_bytes : 0;
}
