#pragma once

#include "libclient/include/lyre/lyre.h"
#include "stack/base/ip_address.h"

namespace lyre::client {

IpAddress address_of(const lyre_addr& addr);
bool is_unspecified(const lyre_addr& addr);
/// 0, or LYRE_E_INVALID for a reserved field that is not 0: a meaning that this library does not
/// know.
int check_reserved(const lyre_addr& addr);

}  // namespace lyre::client
