#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/base/ip_address.h"
#include "stack/ip/input.h"
#include "stack/ip/route_table.h"
#include "stack/link/neighbours.h"
#include "stack/wire/arp.h"
#include "stack/worker/packet_output.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/tables/connection_walk.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// The worker's side of ARP and neighbour discovery: its own addresses on each port, and the MAC
/// addresses of its neighbours.
/// Thread: the worker.
class Neighbourhood {
 public:
  Neighbourhood(WorkerState& state, PacketOutput& output, SessionLifecycle& lifecycle)
      : state_(state), output_(output), lifecycle_(lifecycle) {}

  void add_port(const PortBinding& binding);
  void add_route(uint8_t port, const ip::Prefix& to, const IpAddress& gateway);
  /// Brings the routes up to what neighbour discovery found out.
  void update_routes();

  void on_arp(uint8_t port, const wire::ArpPacket& packet);
  void on_ndp(uint8_t port, const link::NdpArrival& arrival);
  void on_mld(uint8_t port, const wire::MldQuery& query);
  /// What a neighbour says reaches one worker, but concerns others. The worker that received the
  /// packet answers and counts it; here it is only learned, and the speaker defends its addresses.
  void on_update(const WorkerMessage& message);

  size_t run_timers();
  /// Ends some of the sessions from an address that another host turned out to have; they never
  /// sent anything. A step of the turn by itself: no segment of theirs is being merged then.
  size_t leave_lost_addresses();
  bool is_leaving_addresses() const { return lost_addresses_walk_.is_under_way(); }

 private:
  void share(const WorkerMessage::Body& update, uint8_t port, const IpAddress& subject,
             uint64_t besides);
  bool concerns_all(uint8_t port, const link::NdpPacket& packet,
                    const link::NeighbourHandled& handled, bool is_news) const;
  void carry_out(const link::NeighbourHandled& handled);
  void show_claim(uint8_t port, const IpAddress& claimed, MacAddress claimant);
  void look_at_links();

  WorkerState& state_;
  PacketOutput& output_;
  SessionLifecycle& lifecycle_;
  uint32_t ndp_seen_ = UINT32_MAX;  ///< generation that the routes follow
  ConnectionWalk lost_addresses_walk_;
};

}  // namespace lyre::worker
