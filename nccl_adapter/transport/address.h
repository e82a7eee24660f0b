#pragma once

#include <cstdint>
#include <string>

#include "lyre/lyre.h"
#include "nccl_adapter/protocol/handle.h"

/// A transport address: the bytes that the protocol carries, as liblyre takes them and as text.
namespace lyre::nccl_adapter {

lyre_addr make_addr(const Address& address, uint16_t port);
/// The unspecified address: "no address" in a handle.
bool is_none(const Address& address);
/// IPv4, which is carried as mapped into IPv6 (RFC 4291 2.5.5.2); else it is IPv6.
bool is_ipv4(const Address& address);
/// fe80::/10 (RFC 4291 2.5.6) or 169.254/16 (RFC 3927 2.1).
bool is_link_local(const Address& address);
/// "10.9.0.1", "[fd00::1]"
std::string to_string(const Address& address);
/// "10.9.0.1:5000"
std::string to_string(const lyre_addr& address);

}  // namespace lyre::nccl_adapter
