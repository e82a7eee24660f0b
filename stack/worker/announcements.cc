#include "stack/worker/announcements.h"

namespace lyre::worker {

bool Announcements::must_wait_for_port(uint32_t conn) {
  return parts_.holds.holds_memory_of(state_.session(conn));
}

void Announcements::on_open_told(uint32_t conn) {
  const session::Session& opened = state_.session(conn);
  if (!opened.is_passive) return;
  if (state_.listeners.is_valid(opened.listener, opened.listener_generation)) {
    const channel::CompletionProducer& ring = state_.contexts[opened.context].completions;
    state_.listeners[opened.listener].tell(ring.position());
  }
  parts_.lifecycle.leave_listener(conn);
}

void Announcements::on_end_told(uint32_t conn) {
  parts_.lifecycle.forget_context(conn);
  parts_.lifecycle.release_if_done(conn);
}

}  // namespace lyre::worker
