#pragma once

#include <array>
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

/// All pairs of one address family (IPv4 or IPv6), the best first: what lies in one network before
/// what needs a router, and neighbours in the list share as few ports as possible. `first` is the
/// port that comes first on our side, the first of `remotes` on theirs.
std::vector<RailPair> rail_pairs(std::span<const lyre_port> ports, size_t first,
                                 std::span<const Address> remotes);

/// How many of such a list, all at its front, need no router.
size_t count_on_link(std::span<const lyre_port> ports, std::span<const RailPair> pairs);

/// The same addresses, `first` in front and the others in the same circle; it is added where it is
/// missing.
std::vector<Address> beginning_with(const Address& first, std::vector<Address> addresses);

/// Those of a handle's addresses that pairs are to be made of: all of the first one's family, and
/// others only where a port of ours has no address of that family. So two hosts with both families
/// use one. None: the two hosts have no family in common. REQUIRES: `remotes` is not empty.
std::vector<Address> usable_addresses(std::span<const lyre_port> ports,
                                      std::vector<Address> remotes);

/// The address that others are told.
Address address_of(const lyre_port& port);
/// The port's address of the family of `remote`, from which to speak to it; the one that others are
/// told where it has none. A link-local address counts only where it is the first one.
Address address_towards(const lyre_port& port, const Address& remote);
/// What a handle of port `own` names beside that port's address: its address of the other family,
/// if it has one, then other ports, in the same family if they can. All zeros: none.
std::array<Address, kHandleOthersMax> further_addresses(std::span<const lyre_port> ports,
                                                        size_t own);

}  // namespace lyre::nccl_adapter
