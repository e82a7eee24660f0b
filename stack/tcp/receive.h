#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// RFC 9293 3.10.7.4, seventh: text. Stores the new part of `segment`, in order or not.
void process_text(Core& core, Connection& c, const SegmentIn& segment, Nanos now, Effects& effects);
/// RFC 9293 3.10.7.4, eighth: FIN, once everything before it has arrived.
void process_fin(Core& core, Connection& c, const SegmentIn& segment, Nanos now, Effects& effects);

/// RFC 2883 4: [start, end) arrived twice; the next ACK reports it.
void note_duplicate(Connection& c, SeqNum start, SeqNum end);

/// The application released packets that were charged `charge_bytes`.
void release_charge(Connection& c, uint32_t charge_bytes, Nanos now, Effects& effects);

}  // namespace lyre::tcp
