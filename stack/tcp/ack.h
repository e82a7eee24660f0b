#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// RFC 9293 3.10.7.4, fifth: the ACK field. Returns kDone when it is not acceptable.
Verdict process_ack(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                    Effects& effects);
/// The part of process_ack() for the ACK of our SYN. REQUIRES: segment.ack is acceptable.
void process_syn_ack(Core& core, Connection& c, const SegmentIn& segment, Nanos now);

}  // namespace lyre::tcp
