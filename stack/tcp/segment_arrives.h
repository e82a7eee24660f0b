#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// RFC 9293 3.10.7: SEGMENT ARRIVES.
void segment_arrives(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                     Effects& effects);

}  // namespace lyre::tcp
