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
  /// Both ports have the same place, on hosts with as many ports each: where each rail is a network
  /// of its own, only such ports reach each other.
  bool is_same_place = false;
  /// What is at the same place follows from both.
  friend bool operator==(const RailPair& a, const RailPair& b) {
    return a.local == b.local && a.remote == b.remote;
  }
};

/// All pairs of one address family (IPv4 or IPv6), the best first: what lies in one network before
/// what needs a router, of that what has the same place on two hosts with as many ports each, and
/// neighbours in the list share as few ports as possible. `first` is the port that comes first on
/// our side, the first of `remotes` on theirs. `told` are the peer's addresses in the order of its
/// ports, kRailsMax at most, all zeros where one is not known; empty: none is.
std::vector<RailPair> rail_pairs(std::span<const lyre_port> ports, size_t first,
                                 std::span<const Address> remotes,
                                 std::span<const Address> told = {});

/// How many of such a list, all at its front, need no router.
size_t count_on_link(std::span<const lyre_port> ports, std::span<const RailPair> pairs);
/// How many, all at its front, have the same place.
size_t count_same_place(std::span<const RailPair> pairs);

/// The same addresses, `first` in front and the others in the same circle; it is added where it is
/// missing.
std::vector<Address> beginning_with(const Address& first, std::vector<Address> addresses);

/// Those of a handle's addresses that pairs are to be made of: all of the first one's family, and
/// others only where a port of ours has no address of that family. So two hosts with both families
/// use one. None: the two hosts have no family in common. REQUIRES: `remotes` is not empty.
std::vector<Address> usable_addresses(std::span<const lyre_port> ports,
                                      std::vector<Address> remotes);

/// Which of them has the address; the first one where none has.
size_t port_at(std::span<const lyre_port> ports, const Address& address);
/// The address that others are told.
Address address_of(const lyre_port& port);
/// The port's address of the family of `remote`, from which to speak to it; the one that others are
/// told where it has none. A link-local address counts only where it is the first one.
Address address_towards(const lyre_port& port, const Address& remote);
/// What a handle of port `own` names beside that port's address: its address of the other family,
/// if it has one, then other ports, in the same family if they can. All zeros: none.
std::array<Address, kHandleOthersMax> further_addresses(std::span<const lyre_port> ports,
                                                        size_t own);
/// The places of a handle of port `own` with these further addresses.
HandlePlaces places_of(std::span<const lyre_port> ports, size_t own,
                       const std::array<Address, kHandleOthersMax>& others);
/// What a handle tells of the peer's ports, for rail_pairs(): those of `remotes` whose places it
/// names.
std::vector<Address> told_by(const Handle& handle, std::span<const Address> remotes);

}  // namespace lyre::nccl_adapter
