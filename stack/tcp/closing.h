#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// The application's CLOSE (RFC 9293 3.10.4): sends the FIN, or queues it until the state allows
/// it.
void begin_fin(Connection& c, Effects& effects);
/// RFC 9293 3.10.7.4, eighth: the peer's FIN is next in order.
void on_peer_fin(Connection& c, Nanos now, Effects& effects);
/// RFC 9293 3.10.7.4, fifth: our FIN has been acknowledged.
void on_fin_acked(Connection& c, Nanos now, Effects& effects);
/// Starts or restarts the 2 MSL timer.
void restart_time_wait(Connection& c, Nanos now);

void app_shutdown(Connection& c, Effects& effects);
void app_close(Connection& c, Nanos now, Effects& effects);
std::optional<SegmentOut> app_abort(Connection& c, Nanos now);

/// The RST that queue_reset() asked for.
SegmentOut take_reset(Connection& c, Nanos now);

}  // namespace lyre::tcp
