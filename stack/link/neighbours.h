#pragma once

#include <array>
#include <cstdint>

#include "stack/link/arp.h"
#include "stack/link/mld.h"
#include "stack/link/ndp.h"
#include "stack/link/neighbour_cache.h"

namespace lyre::link {

/// The neighbours of one worker's ports, of both families: one cache, which ARP and NDP fill.
/// Thread: one. Units: time is the caller's `now`.
class Neighbours {
 public:
  /// `board`: *borrowed*, of all workers with the same ports; nullptr: this one is alone.
  explicit Neighbours(uint64_t seed, NeighbourBoard* board = nullptr, uint32_t worker = kSpeaker)
      : cache_(seed, board, worker),
        arp_(worker == kSpeaker),
        ndp_(seed, cache_.board(), worker == kSpeaker),
        mld_(seed, worker == kSpeaker) {}

  /// Sets the configuration of `port`, once, and allocates its part of the cache. Its IPv4
  /// addresses are announced, its IPv6 addresses that are not verified probed for first; the
  /// speaker does so for all workers.
  void set_port(uint8_t port, const NdpPort& description, Nanos now);

  /// The link of `port` came up. Other hosts may be connected now, and earlier announcements may
  /// not have reached them: solicitations and announcements are sent again.
  void on_link_up(uint8_t port, Nanos now);
  /// See Ndp::set_link(). Call before on_timer() for the ports of which Ndp::needs_link() says so.
  /// REQUIRES: port < kPortsMax.
  void set_link(uint8_t port, bool is_up) { ndp_.set_link(port, is_up); }

  /// The MAC of `next_hop` on `port`, for packets from `source`. kPending while a solicitation is
  /// unanswered, and while duplicate address detection runs for `source`, or, where that is
  /// unspecified, for any address of the port. kUnreachable also where the port has no address of
  /// the family, and where duplicate address detection lacks a link: see Ndp::readiness().
  Resolved resolve(uint8_t port, const IpAddress& next_hop, Nanos now,
                   const IpAddress& source = {});
  /// Allocates what urge() needs. Call once, at start.
  void set_users(uint32_t users_max) { cache_.set_users(users_max); }
  /// See NeighbourCache::urge(). Has no effect where resolve() made no entry.
  void urge(uint8_t port, const IpAddress& next_hop, uint32_t user, Nanos now) {
    if (port < kPortsMax) cache_.urge(port, next_hop, user, now);
  }
  /// A neighbour that was resolved is kept until release(). False: the cache has no entry for it.
  bool hold(uint8_t port, const IpAddress& next_hop) { return cache_.hold(port, next_hop); }
  void release(uint8_t port, const IpAddress& next_hop) { cache_.release(port, next_hop); }

  /// See NeighbourCache::doubt().
  void doubt(uint8_t port, const IpAddress& next_hop, Nanos now);

  NeighbourHandled handle_arp(uint8_t port, const wire::ArpPacket& packet, Nanos now);
  NeighbourHandled handle_ndp(uint8_t port, const NdpArrival& arrival, Nanos now);
  NeighbourHandled handle_mld(uint8_t port, const wire::MldQuery& query, Nanos now);

  /// Appends the packets that are due. Call when next_deadline() has passed; what does not fit into
  /// `out` stays due.
  void on_timer(Nanos now, NeighbourOutList& out);
  /// A packet of on_timer() was not sent: other workers do not rely on the question in it.
  void take_back(const NeighbourOut& out);
  Nanos next_deadline() const { return next_deadline_; }

  /// A packet without effect (an announcement), for drivers that free sent packets only when they
  /// send again; empty while the port may send none.
  std::optional<NeighbourOut> announcement(uint8_t port) const;

  /// Changes whenever an answer of resolve() may have changed from kPending or kUnreachable.
  uint32_t generation() const { return cache_.generation() + ndp_.generation(); }
  const NeighbourCache& cache() const { return cache_; }
  const Ndp& ndp() const { return ndp_; }

 private:
  void find_deadline();
  void follow_ndp(Nanos now);
  void ask_neighbours(Nanos now, NeighbourOutList& out);

  NeighbourCache cache_;
  Arp arp_;
  Ndp ndp_;
  Mld mld_;
  std::array<bool, kPortsMax> has_spoken_up_{};  ///< reports go out from the link-local address
  Nanos next_deadline_ = kNever;
};

}  // namespace lyre::link
