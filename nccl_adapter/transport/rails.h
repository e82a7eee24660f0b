#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/protocol/handle.h"

/// Pairs of ports of two hosts, over which a stream can go.
namespace lyre::nccl_adapter {

/// One of our ports and one of the peer's addresses.
struct RailPair {
  size_t local;  ///< index of our port
  Address remote;
  friend bool operator==(const RailPair&, const RailPair&) = default;
};

/// All pairs, the best first: what lies in one network before what needs a router, and neighbours
/// in the list share as few ports as possible. `first` is the port that comes first on our side,
/// the first of `remotes` on theirs.
std::vector<RailPair> rail_pairs(std::span<const lyre_port> ports, size_t first,
                                 std::span<const Address> remotes);

/// How many of such a list, all at its front, need no router.
size_t count_on_link(std::span<const lyre_port> ports, std::span<const RailPair> pairs);

/// The same addresses, `first` in front and the others in the same circle; it is added where it is
/// missing.
std::vector<Address> beginning_with(const Address& first, std::vector<Address> addresses);

/// The address that others are told.
Address address_of(const lyre_port& port);
/// The address from which to speak to `remote`: the port's first one of that family.
Address address_towards(const lyre_port& port, const Address& remote);

}  // namespace lyre::nccl_adapter
