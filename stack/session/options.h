#pragma once

#include <cstdint>

#include "stack/channel/abi.h"
#include "stack/tcp/config.h"

namespace lyre::session {

/// Puts into `config` what a client asks for. False: the option or its value is not allowed, and
/// nothing is changed.
bool apply_option(channel::SessionOption option, uint32_t value, tcp::ConnectionConfig& config);

}  // namespace lyre::session
