#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "daemon/config/config.h"

namespace lyre {

/// [[domain]] sections of one daemon. Each has a stats segment of its own.
inline constexpr size_t kDomainsMax = 16;

/// Takes what is wrong with a key in a line of the file.
using Complain = std::function<void(uint32_t line, std::string_view key, const std::string& text)>;

/// Checks the domains that the file names, or makes the default one: all clients that can open
/// `daemon.socket`, with all ports. Looks up their ports. Checks clients.lend, and that no
/// key is given that would not be used.
void complete_domains(Config& config, const Complain& complain);

/// "rail0, rail1".
std::string port_names(const Config& config);

/// `clients.lend` where one domain has all ports, else kNone: a receive pool has the frames of all
/// ports.
Lend lending_of(const Config& config);

}  // namespace lyre
