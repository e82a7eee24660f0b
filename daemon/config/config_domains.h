#pragma once

#include <cstddef>

#include "daemon/config/config.h"

namespace lyre {

/// [[domain]] sections of one daemon. Each has a stats segment of its own.
inline constexpr size_t kDomainsMax = 16;

/// Checks the domains that the file names, or makes the one that it does not name: everybody who
/// can open `daemon.socket`, with all ports. Looks up their ports. Checks clients.lend. Fails: one
/// line like those of parse_config().
Status complete_domains(Config& config);

/// `clients.lend` where one domain has all ports, else kNone: a receive pool has the frames of all
/// ports.
Lend lending_of(const Config& config);

}  // namespace lyre
