#include "stack/worker/impl.h"

namespace lyre::worker {

void Worker::Impl::arm(uint32_t conn) {
  const Nanos deadline = engine.next_deadline(conn);
  if (deadline != kNever) timers.arm(conn, deadline);
}

size_t Worker::Impl::run_timers() {
  const size_t fired = timers.advance(now, kTimersPerPollMax, [this](uint32_t conn) {
    if (!engine.is_open(conn)) return;
    // The wheel fires early where a deadline was moved back: look at the true one.
    if (engine.next_deadline(conn) > now) return arm(conn);
    effects.clear();
    engine.on_timer(conn, now, effects);
    apply(conn);
  });
  return fired + run_arp_timers();
}

size_t Worker::Impl::run_arp_timers() {
  if (arp.next_deadline() > now) return 0;
  link::ArpOutList out;
  arp.on_timer(now, out);
  for (const link::ArpOut& packet : out) send_arp(packet);
  return out.size();
}

}  // namespace lyre::worker
