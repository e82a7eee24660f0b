#include "stack/tcp/engine.h"
#include "stack/worker/impl.h"
#include "stack/worker/timer_wheel.h"

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
    tcp::Effects effects;
    engine.on_timer(conn, now, effects);
    apply(conn, effects);
  });
  return fired + run_neighbour_timers();
}

}  // namespace lyre::worker
