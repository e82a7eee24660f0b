#include "nccl_adapter/transport/rails.h"

#include <algorithm>
#include <optional>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/transport/address.h"

namespace lyre::nccl_adapter {
namespace {

constexpr uint32_t kAddressBits = 128;
constexpr uint32_t kIpv4PrefixBits = 96;

Address to_address(const uint8_t (&bytes)[16]) {
  Address address;
  std::copy(std::begin(bytes), std::end(bytes), address.begin());
  return address;
}

bool is_in_network(const Address& own, uint32_t prefix_bits, const Address& remote) {
  if (is_ipv4(own) != is_ipv4(remote)) return false;
  // A prefix is that of its address's family.
  uint32_t bits = prefix_bits + (is_ipv4(own) && prefix_bits <= 32 ? kIpv4PrefixBits : 0);
  bits = std::min(bits, kAddressBits);
  for (uint32_t i = 0; i < bits; ++i) {
    if (((own[i / 8] ^ remote[i / 8]) >> (7 - i % 8) & 1) != 0) return false;
  }
  return true;
}

// A peer in another network cannot answer a link-local address. It counts where it is all that
// others are told.
std::optional<Address> find_address(const lyre_port& port, bool wants_ipv4) {
  const Address first = address_of(port);
  if (is_ipv4(first) == wants_ipv4) return first;
  for (int i = 0; i < port.address_count; ++i) {
    const Address own = to_address(port.addresses[i].address);
    if (is_ipv4(own) == wants_ipv4 && !is_link_local(own)) return own;
  }
  return std::nullopt;
}

bool has_family_of(const lyre_port& port, const Address& remote) {
  return find_address(port, is_ipv4(remote)).has_value();
}

bool is_on_link(const lyre_port& port, const Address& remote) {
  if (is_in_network(address_of(port), port.prefix_bits, remote)) return true;
  for (int i = 0; i < port.address_count; ++i) {
    const lyre_port_address& own = port.addresses[i];
    if (is_in_network(to_address(own.address), own.prefix_bits, remote)) return true;
  }
  return false;
}

// With fewer ports on one side, the other one's further ports would have no such pair.
bool is_same_place(std::span<const lyre_port> ports, size_t local, std::span<const Address> told,
                   const Address& remote) {
  const bool are_as_many = told.size() == std::min<size_t>(ports.size(), kRailsMax);
  return are_as_many && local < told.size() && told[local] == remote;
}

bool has_address(const lyre_port& port, const Address& address) {
  if (address_of(port) == address) return true;
  const std::span all(port.addresses, static_cast<size_t>(port.address_count));
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& own) { return to_address(own.address) == address; });
}

/// As a handle says it.
uint8_t handle_place(std::span<const lyre_port> ports, const Address& address) {
  const size_t count = std::min<size_t>(ports.size(), kRailsMax);
  for (size_t i = 0; !is_none(address) && i < count; ++i) {
    if (has_address(ports[i], address)) return static_cast<uint8_t>(i + 1);
  }
  return 0;
}

// The peer's port that was asked for comes first, as in PXN: the rail is changed inside a host.
void put_same_place_first(std::span<RailPair> pairs, std::span<const Address> remotes) {
  const auto end = std::stable_partition(pairs.begin(), pairs.end(),
                                         [](const RailPair& pair) { return pair.is_same_place; });
  const auto turn = [&](const RailPair& pair) {
    return std::find(remotes.begin(), remotes.end(), pair.remote);
  };
  std::stable_sort(pairs.begin(), end,
                   [&](const RailPair& a, const RailPair& b) { return turn(a) < turn(b); });
}

}  // namespace

std::vector<RailPair> rail_pairs(std::span<const lyre_port> ports, size_t first,
                                 std::span<const Address> remotes, std::span<const Address> told) {
  std::vector<RailPair> pairs;
  for (size_t shift = 0; shift < remotes.size(); ++shift) {
    for (size_t i = 0; i < ports.size(); ++i) {
      const Address& remote = remotes[(i + shift) % remotes.size()];
      const size_t local = (first + i) % ports.size();
      const RailPair pair{local, remote, is_same_place(ports, local, told, remote)};
      if (has_family_of(ports[pair.local], pair.remote)) pairs.push_back(pair);
    }
  }
  const auto far = std::stable_partition(pairs.begin(), pairs.end(), [&](const RailPair& pair) {
    return is_on_link(ports[pair.local], pair.remote);
  });
  put_same_place_first({far, pairs.end()}, remotes);
  return pairs;
}

size_t count_on_link(std::span<const lyre_port> ports, std::span<const RailPair> pairs) {
  const auto is_near = [&](const RailPair& pair) {
    return is_on_link(ports[pair.local], pair.remote);
  };
  return static_cast<size_t>(std::find_if_not(pairs.begin(), pairs.end(), is_near) - pairs.begin());
}

size_t count_same_place(std::span<const RailPair> pairs) {
  const auto is_other = [](const RailPair& pair) { return !pair.is_same_place; };
  return static_cast<size_t>(std::find_if(pairs.begin(), pairs.end(), is_other) - pairs.begin());
}

std::vector<Address> beginning_with(const Address& first, std::vector<Address> addresses) {
  const auto it = std::find(addresses.begin(), addresses.end(), first);
  if (it == addresses.end()) {
    addresses.insert(addresses.begin(), first);
  } else {
    std::rotate(addresses.begin(), it, addresses.end());
  }
  return addresses;
}

std::vector<Address> usable_addresses(std::span<const lyre_port> ports,
                                      std::vector<Address> remotes) {
  const Address first = remotes.front();
  std::erase_if(remotes, [&](const Address& remote) {
    return std::none_of(ports.begin(), ports.end(), [&](const lyre_port& port) {
      if (is_ipv4(remote) != is_ipv4(first) && has_family_of(port, first)) return false;
      return has_family_of(port, remote);
    });
  });
  return remotes;
}

size_t port_at(std::span<const lyre_port> ports, const Address& address) {
  const auto found = std::find_if(ports.begin(), ports.end(), [&](const lyre_port& port) {
    return has_address(port, address);
  });
  return found != ports.end() ? static_cast<size_t>(found - ports.begin()) : 0;
}

Address address_of(const lyre_port& port) { return to_address(port.address); }

Address address_towards(const lyre_port& port, const Address& remote) {
  return find_address(port, is_ipv4(remote)).value_or(address_of(port));
}

std::array<Address, kHandleOthersMax> further_addresses(std::span<const lyre_port> ports,
                                                        size_t own) {
  std::array<Address, kHandleOthersMax> further{};
  size_t count = 0;
  const Address first = address_of(ports[own]);
  if (const auto other = find_address(ports[own], !is_ipv4(first))) further[count++] = *other;
  // From the other half first: adjacent ports may fail together.
  const size_t half = std::max<size_t>(ports.size() / 2, 1);
  for (size_t i = 0; i + 1 < ports.size() && count < further.size(); ++i) {
    further[count++] = address_towards(ports[(own + half + i) % ports.size()], first);
  }
  return further;
}

HandlePlaces places_of(std::span<const lyre_port> ports, size_t own,
                       const std::array<Address, kHandleOthersMax>& others) {
  HandlePlaces places{.ports = static_cast<uint8_t>(std::min<size_t>(ports.size(), kRailsMax))};
  places.first = handle_place(ports, address_of(ports[own]));
  std::transform(others.begin(), others.end(), places.others.begin(),
                 [&](const Address& other) { return handle_place(ports, other); });
  return places;
}

std::vector<Address> told_by(const Handle& handle, std::span<const Address> remotes) {
  std::vector<Address> told(std::min<size_t>(handle.places.ports, kRailsMax));
  const auto tell = [&](const Address& address, size_t place) {
    const bool is_usable = std::find(remotes.begin(), remotes.end(), address) != remotes.end();
    if (place == 0 || place > told.size() || !is_usable || !is_none(told[place - 1])) return;
    told[place - 1] = address;
  };
  tell(handle.address, handle.places.first);
  for (size_t i = 0; i < handle.others.size(); ++i) tell(handle.others[i], handle.places.others[i]);
  return told;
}

}  // namespace lyre::nccl_adapter
