#include "stack/worker/announcements.h"

namespace lyre::worker {

/// An ACK proves that the port has read the bytes that it acknowledges, but not that it let go of
/// copies that were sent again. Then the client gets its memory back only once the port holds
/// nothing of it; meanwhile nothing more of that client is handed to a port, so the wait is short.
bool Announcements::must_wait_for_ports(Context& context, session::Session& waiting) {
  if (!waiting.was_retransmitted) return false;
  const bool has_news = waiting.has_unannounced_sends() || waiting.must_announce_end;
  if (!has_news) return false;
  if (parts_.regions.holds_memory_of(waiting)) {
    context.waits_for_holds = true;
    return true;
  }
  if (waiting.sends.piece_count == 0) {
    waiting.was_retransmitted = false;
    waiting.retransmitted_region = session::kNoIndex;
  }
  return false;
}

void Announcements::on_open_told(uint32_t conn) {
  if (state_.session(conn).is_passive) parts_.lifecycle.leave_listener(conn);
}

void Announcements::on_end_told(uint32_t conn) {
  parts_.lifecycle.forget_context(conn);
  parts_.lifecycle.release_if_done(conn);
}

}  // namespace lyre::worker
