#pragma once

#include <cstdint>

#include "stack/base/ip_marking.h"
#include "stack/channel/abi.h"
#include "stack/tcp/config.h"

namespace lyre::session {

/// Stores in `config` the value that a client asks for. False: the option or its value is not
/// allowed, and `config` is unchanged.
bool apply_option(channel::SessionOption option, uint32_t value, tcp::ConnectionConfig& config,
                  IpMarking& marking);

}  // namespace lyre::session
