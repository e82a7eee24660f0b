#pragma once

#include "libclient/include/lyre/lyre.h"
#include "stack/base/ip_address.h"

namespace lyre::client {

IpAddress address_of(const lyre_addr& addr);
bool is_unspecified(const lyre_addr& addr);

}  // namespace lyre::client
