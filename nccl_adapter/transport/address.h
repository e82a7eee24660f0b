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
/// "10.9.0.1:5000"
std::string to_string(const lyre_addr& address);

}  // namespace lyre::nccl_adapter
