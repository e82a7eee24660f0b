#pragma once

#include <cstdint>

#include "stack/base/ip_address.h"
#include "stack/base/nanos.h"
#include "stack/base/seq_num.h"
#include "stack/base/siphash.h"

namespace lyre::tcp {

/// RFC 6528 3: ISN = M + F(4-tuple, secret); M ticks every 4 microseconds.
SeqNum initial_seq(const FourTuple& tuple, SipKey key, Nanos now);

/// RFC 7323 5.4: the random offset of this connection's timestamp clock; as unpredictable as the
/// ISN.
uint32_t timestamp_offset(const FourTuple& tuple, SipKey key);

}  // namespace lyre::tcp
