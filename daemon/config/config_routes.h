#pragma once

#include "daemon/config/config.h"
#include "daemon/config/config_domains.h"

namespace lyre {

bool has_address(const PortConfig& port, const IpAddress& address);

/// Checks the addresses and gateways of each port against those of all ports.
void check_networks(const Config& config, const Complain& complain);

/// Looks up the ports of the routes that the file names, and checks that each worker can add them
/// to its route table in any order.
void complete_routes(Config& config, const Complain& complain);

}  // namespace lyre
