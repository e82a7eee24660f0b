#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/bounded_vector.h"
#include "stack/base/interface_address.h"
#include "stack/base/nanos.h"
#include "stack/link/neighbour_cache.h"
#include "stack/link/neighbour_out.h"

namespace lyre::link {

/// RFC 4862 5.1: DupAddrDetectTransmits.
inline constexpr uint8_t kDadProbes = 1;
/// RFC 4861 10: MAX_RTR_SOLICITATION_DELAY, RTR_SOLICITATION_INTERVAL, MAX_NEIGHBOR_ADVERTISEMENT
/// (this host sends fewer).
inline constexpr Nanos kFirstSolicitDelayMax = seconds(1);
inline constexpr Nanos kRouterSolicitInterval = seconds(4);
/// RFC 7559 2: the interval doubles up to this, and the number of solicitations has no limit. Each
/// interval is up to a tenth longer or shorter.
inline constexpr Nanos kRouterSolicitIntervalMax = seconds(3600);
inline constexpr uint8_t kNdpAnnounceCount = 2;
/// A worker that does not speak looks this often for what the speaker found out about an address.
inline constexpr Nanos kFollowInterval = millis(50);
/// While a link is down, its state is read this often for the addresses that wait for it:
/// on_link_up() is not called for a link that is up again before its loss was noticed.
inline constexpr Nanos kLinkLookInterval = seconds(1);
/// Connections wait for an address until its port has had no link for so long, as for a neighbour
/// that does not answer. Later ones end at once, until the link is there.
inline constexpr Nanos kLinkWaitMax = kRetransmitTime * kSolicitsMax;

/// Default routers that are stored of one port. Those that are heard on one port take no places of
/// another's.
inline constexpr size_t kRoutersPerPortMax = 4;

/// The configuration of one port.
struct NdpPort {
  MacAddress mac;
  std::span<const InterfaceAddress> addresses;  ///< IPv4 addresses are ignored
  bool takes_routers = false;                   ///< default routers are learned from advertisements
  uint32_t neighbours_max = kNeighboursDefault;
  /// This host has used these of the addresses until now: they are not probed for.
  std::span<const IpAddress> verified;
};

/// An NDP message as it arrived.
struct NdpArrival {
  MacAddress sender_mac;  ///< of the frame
  NdpPacket packet;
};

/// NDP for this host's IPv6 addresses: duplicate address detection (RFC 4862 5.4 without the
/// optimistic variant: nothing is sent from a tentative address), answers to solicitations (RFC
/// 4861 7.2.4), and default routers. Neighbours are stored in the NeighbourCache. Plain data.
/// Thread: one.
class Ndp {
 public:
  /// Of several workers with the same addresses, one `speaks`: it alone probes for them and
  /// announces them, and is the first to ask for routers. The others learn from `board` what it
  /// found out. Owner: the board is borrowed.
  Ndp(uint64_t seed, NeighbourBoard& board, bool speaks)
      : seed_(seed),
        board_(&board),
        speaks_(speaks),
        first_question_after_(speaks ? Nanos{0} : kRouterSolicitInterval) {}

  /// Starts duplicate address detection for the addresses that are not verified. Without a
  /// link-local one among them, solicitations leave from the others, and no routers are asked for.
  void set_port(uint8_t port, const NdpPort& description, Nanos now);

  /// Sends what was not sent, or lost, while the link was down: probes for tentative addresses,
  /// advertisements of usable ones, and router solicitations.
  void on_link_up(uint8_t port, Nanos now);

  /// Whether the link of `port` is up; it is at first. Duplicate address detection waits while it
  /// is down: a probe that nobody receives proves nothing.
  void set_link(uint8_t port, bool is_up);
  /// A tentative address of `port` is due: on_timer() needs to know the state of the link.
  bool needs_link(uint8_t port, Nanos now) const;

  NeighbourHandled handle(uint8_t port, const NdpArrival& arrival, NeighbourCache& cache,
                          Nanos now);

  /// The solicitation for `asked`; empty while the port has no usable source address.
  std::optional<NeighbourOut> solicitation(const Solicit& asked) const;
  /// An unsolicited advertisement of an address of `port`; empty if it has no usable one.
  std::optional<NeighbourOut> announcement(uint8_t port) const;
  /// Whether neighbours on `port` can be resolved for packets from `source`. kKnown: they can.
  /// kPending: it is not usable, and duplicate address detection runs for an address of the port.
  /// kUnreachable: the port has no usable address, or duplicate address detection has waited for a
  /// link for kLinkWaitMax.
  Answer readiness(uint8_t port, const IpAddress& source) const {
    const Port& at = ports_[port];
    if (at.is_settled || is_usable(port, source)) {
      return at.has_usable ? Answer::kKnown : Answer::kUnreachable;
    }
    return at.lacks_link ? Answer::kUnreachable : Answer::kPending;
  }
  /// Whether `address` is one of the port's, and usable.
  bool is_usable(uint8_t port, const IpAddress& address) const;
  /// The port's link-local address once it is usable.
  std::optional<IpAddress> link_local_of(uint8_t port) const;

  void on_timer(Nanos now, NeighbourOutList& out);
  Nanos next_deadline() const;

  struct Own {
    InterfaceAddress address;
    uint8_t port = 0;
    uint8_t number = 0;  ///< on the board
    AddressState state = AddressState::kTentative;
    uint8_t sends_left = 0;  ///< probes while tentative, then announcements
    bool was_delayed = false;
    Nanos deadline = kNever;
  };
  /// All addresses, and the default router of a port. The worker's routes are derived from them.
  std::span<const Own> addresses() const { return {own_.begin(), own_.size()}; }
  std::optional<IpAddress> default_router(uint8_t port) const;
  bool takes_routers(uint8_t port) const { return ports_[port].takes_routers; }
  /// Whether `address` is one of the port's learned routers.
  bool is_router(uint8_t port, const IpAddress& address) const;
  /// A neighbour on `port` answered no solicitation. If it is a router, others are preferred to it
  /// until a message of its own gives its MAC.
  void suspect(uint8_t port, const IpAddress& address, Nanos now);
  /// Changes whenever addresses(), their states, an answer of readiness() or a default router
  /// changed.
  uint32_t generation() const { return generation_; }

 private:
  struct Port {
    bool takes_routers = false;
    bool is_settled = true;
    bool has_usable = false;
    bool is_link_up = true;
    bool lacks_link = false;  ///< for kLinkWaitMax
    MacAddress mac;
    Nanos no_link_since = kNever;                     ///< while an address waits for it
    Nanos solicit_interval = kRouterSolicitInterval;  ///< after the next router solicitation
    Nanos solicit_at = kNever;
    Nanos may_solicit_at;  ///< RFC 4861 6.3.7: kRouterSolicitInterval after the last one

    void solicit_routers(Nanos at);
  };
  struct Router {
    IpAddress address;
    uint8_t port = 0;
    wire::RouterPreference preference{};
    Nanos expires_at;
    uint64_t suspicion = 0;  ///< 0: it may answer; else the number of the time when it did not

    bool goes_before(const Router& other) const;
  };

  NeighbourHandled on_solicitation(uint8_t port, const NdpArrival& arrival, NeighbourCache& cache,
                                   Nanos now);
  NeighbourHandled on_advertisement(uint8_t port, const NdpArrival& arrival, NeighbourCache& cache,
                                    Nanos now);
  NeighbourHandled on_router(uint8_t port, const NdpArrival& arrival, NeighbourCache& cache,
                             Nanos now);
  void add_router(const Router& heard);
  void remove_router(uint8_t port, const IpAddress& address, Nanos now);
  void trust(uint8_t port, const IpAddress& address);
  void trust_all(uint8_t port);
  const Router* best_router(uint8_t port) const;
  Router* find_router(uint8_t port, const IpAddress& address);
  Own* find_own(uint8_t port, const IpAddress& address);
  const Own* usable_for(uint8_t port, const IpAddress& peer) const;
  bool is_on_link(uint8_t port, const IpAddress& address) const;
  void adopt(Own& own, AddressState found, Nanos now);
  void mark_duplicate(const Own& own);
  void look_at_states();
  void step(Own& own, Nanos now, NeighbourOutList& out);
  Nanos randomised(Nanos interval);
  void step_port(uint8_t index, Nanos now, NeighbourOutList& out);
  void step_routers(Nanos now);
  NeighbourOut probe_of(const Own& own) const;
  NeighbourOut advertisement_of(const Own& own) const;

  uint64_t seed_;
  NeighbourBoard* board_;
  bool speaks_;
  Nanos first_question_after_;  ///< for routers: the answer to the speaker comes before
  uint64_t draws_ = 0;
  uint32_t generation_ = 0;
  std::array<Port, kPortsMax> ports_{};
  BoundedVector<Own, size_t{kPortsMax} * kPortAddressesMax> own_;
  BoundedVector<Router, kPortsMax * kRoutersPerPortMax> routers_;
  uint64_t suspicions_ = 0;
};

}  // namespace lyre::link
