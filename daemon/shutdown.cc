#include "daemon/shutdown.h"

#include "daemon/base/daemon_limits.h"

namespace lyre {

void Shutdown::begin(Nanos now) {
  if (has_begun()) return;
  registry_.shut_down();
  deadline_ = now + kShutdownTimeout;
}

Shutdown::State Shutdown::state(Nanos now) const {
  if (!has_begun()) return State::kNotAsked;
  if (registry_.is_shut_down()) return State::kComplete;
  return now < deadline_ ? State::kWaiting : State::kOverdue;
}

}  // namespace lyre
