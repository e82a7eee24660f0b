#pragma once

#include <cstdint>
#include <optional>

#include "stack/base/bounded_vector.h"
#include "stack/base/drop_reasons.h"
#include "stack/base/mac_address.h"
#include "stack/link/neighbour_cache.h"
#include "stack/wire/arp.h"
#include "stack/wire/mld.h"
#include "stack/wire/ndp.h"

namespace lyre::link {

/// A message of neighbour discovery with the addresses of the packet that carries it.
struct NdpPacket {
  wire::AddressPair addresses;
  wire::NdpMessage message;
};

/// A report of multicast listener discovery with the addresses of the packet that carries it.
struct MldPacket {
  wire::AddressPair addresses;
  wire::MldReport report;
};

/// A packet to send from `port`: the member that `kind` names.
struct NeighbourOut {
  enum class Kind : uint8_t { kArp, kNdp, kMld };
  uint8_t port = 0;
  Kind kind = Kind::kArp;
  MacAddress destination;
  wire::ArpPacket arp;
  NdpPacket ndp;
  MldPacket mld;
};

/// Packets that one call of Neighbours::on_timer() can return.
inline constexpr size_t kNeighbourBurstMax = kSolicitBurstMax;
using NeighbourOutList = BoundedVector<NeighbourOut, kNeighbourBurstMax>;

/// The result of handling a received packet.
struct NeighbourHandled {
  std::optional<NeighbourOut> reply;
  std::optional<Drop> drop;  ///< why the packet was of no use
};

inline NeighbourHandled dropped(Drop reason) { return {std::nullopt, reason}; }

}  // namespace lyre::link
