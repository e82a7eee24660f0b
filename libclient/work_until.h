#pragma once

#include <cstdint>

#include "libclient/clock.h"
#include "libclient/context.h"

/// Part of context.h: the loop of all calls that wait.
template <typename Done>
int lyre_context::work_until(int timeout_ms, Done is_done) {
  int64_t idle_since = 0;
  int64_t deadline = INT64_MAX;
  for (;;) {
    const size_t worked = work();
    if (const int code = check(); code != 0) return code;
    if (is_done()) return 1;
    // Reading the clock costs more than polling empty rings: only when the rings were empty.
    const int64_t now = worked > 0 && timeout_ms == 0 ? 0 : lyre::client::now_ns();
    if (now != 0) look_at_control(now);
    if (const int code = check(); code != 0) return code;
    if (timeout_ms == 0) return is_done() ? 1 : 0;
    if (worked > 0 || idle_since == 0) idle_since = now;
    if (deadline == INT64_MAX && timeout_ms > 0) deadline = now + int64_t{timeout_ms} * 1'000'000;
    if (now >= deadline) return 0;
    idle_once(now, idle_since, deadline);
  }
}
