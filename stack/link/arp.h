#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/bounded_vector.h"
#include "stack/base/drop_reasons.h"
#include "stack/base/interface_address.h"
#include "stack/base/mac_address.h"
#include "stack/base/nanos.h"
#include "stack/link/neighbour_cache.h"
#include "stack/link/neighbour_out.h"

namespace lyre::link {

/// RFC 5227 1.1: PROBE_NUM, ANNOUNCE_NUM, ANNOUNCE_INTERVAL, DEFEND_INTERVAL. A probe leaves beside
/// each announcement, and PROBE_MAX is as long as ANNOUNCE_INTERVAL.
inline constexpr uint8_t kArpProbeCount = 3;
inline constexpr uint8_t kArpAnnounceCount = 2;
inline constexpr Nanos kArpAnnounceInterval = seconds(2);
inline constexpr Nanos kArpDefendInterval = seconds(10);

/// ARP for this host's IPv4 addresses: RFC 826, with the probes, announcements and defence of RFC
/// 5227. An address is used while it is probed for: an administrator chose it, and a wait of 7 s
/// would fall into every start. Another host that has it answers the probe, which is a conflict.
/// Neighbours are stored in the NeighbourCache. Plain data. Thread: one.
class Arp {
 public:
  /// Of several workers with the same addresses, one `speaks`: it alone announces, probes and
  /// defends.
  explicit Arp(bool speaks) : speaks_(speaks) {}

  /// Sets the addresses for which requests on `port` are answered, announces them (RFC 5227 2.3)
  /// and probes for them (2.1.1). IPv6 addresses are ignored. Neighbours outside the prefixes are
  /// learned only from replies to our requests.
  void set_port(uint8_t port, MacAddress mac, std::span<const InterfaceAddress> addresses,
                Nanos now);
  bool has_address(uint8_t port) const { return !ports_[port].addresses.empty(); }

  /// Handles a packet that arrived on `port`.
  NeighbourHandled handle(uint8_t port, const wire::ArpPacket& packet, NeighbourCache& cache,
                          Nanos now);

  /// The ARP request for `asked`. REQUIRES: has_address(asked.port).
  NeighbourOut request(const Solicit& asked) const;
  /// Announces the addresses of `port` again, and probes for them.
  void on_link_up(uint8_t port, Nanos now);

  /// An announcement of an address of `port`. REQUIRES: has_address(port).
  NeighbourOut announcement(uint8_t port) const;

  void on_timer(Nanos now, NeighbourOutList& out);
  Nanos next_deadline() const;

 private:
  struct Own {
    InterfaceAddress address;
    uint8_t announcements_left = 0;
    uint8_t probes_left = 0;
    Nanos announce_at = kNever;  ///< or probe
    Nanos defended_at;
  };
  struct Port {
    MacAddress mac;
    BoundedVector<Own, kPortAddressesMax> addresses;
  };
  Own* find_own(Port& port, const IpAddress& address);
  void begin_announcing(Own& own, Nanos now) const;
  void defend(Own& own, Nanos now) const;
  bool step(uint8_t port, Own& own, NeighbourOutList& out) const;
  NeighbourOut announcement_of(uint8_t port, const Own& own) const;
  NeighbourOut probe_of(uint8_t port, const Own& own) const;

  bool speaks_;
  std::array<Port, kPortsMax> ports_{};
};

}  // namespace lyre::link
