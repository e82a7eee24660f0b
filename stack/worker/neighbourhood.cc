#include "stack/base/bounded_vector.h"
#include "stack/base/check.h"
#include "stack/base/interface_address.h"
#include "stack/base/ipv6_address.h"
#include "stack/ip/route_table.h"
#include "stack/link/framing.h"
#include "stack/link/ndp.h"
#include "stack/link/neighbours.h"
#include "stack/wire/arp.h"
#include "stack/worker/impl.h"
#include "stack/worker/port.h"
#include "stack/worker/routing/connection_router.h"

/// The worker's side of ARP and neighbour discovery: its own addresses on each port, and the MAC
/// addresses of its neighbours.
namespace lyre::worker {

void Worker::Impl::add_port(const PortBinding& binding) {
  const auto index = static_cast<uint8_t>(ports.size());
  const MacAddress mac = ports.emplace_back(*binding.io, binding.mtu_bytes).mac();
  BoundedVector<InterfaceAddress, kPortAddressesMax> addresses;
  bool has_ipv6 = false;
  bool has_link_local = false;
  for (const InterfaceAddress& address : binding.addresses) {
    addresses.push(address);
    has_ipv6 = has_ipv6 || !address.address.is_v4();
    has_link_local = has_link_local || is_ipv6_link_local(address.address);
  }
  // RFC 4291 2.1: every interface of IPv6 has a link-local address.
  if (has_ipv6 && !has_link_local) addresses.push({link_local_address(mac), 64});
  for (const InterfaceAddress& address : addresses) {
    // At start only, and the configuration was checked for number and sense.
    LYRE_CHECK(routes.add_address(index, address.address, address.prefix_bits));
  }
  neighbours.set_port(index,
                      {.mac = mac,
                       .addresses = {addresses.begin(), addresses.size()},
                       .takes_routers = binding.takes_routers,
                       .neighbours_max = binding.neighbours_max},
                      now);
  for (const IpAddress& gateway : binding.gateways) {
    add_route(index, ip::Prefix::all_of_family(gateway), gateway);
  }
}

void Worker::Impl::add_route(uint8_t index, const ip::Prefix& to, const IpAddress& gateway) {
  if (routes.add_route(to, gateway, index)) return;
  // A gateway outside the port's prefix is reached directly all the same (clouds do that).
  // At start only, and the configuration was checked for number and sense.
  LYRE_CHECK(routes.add_on_link({gateway, 128}, index));
  LYRE_CHECK(routes.add_route(to, gateway, index));
}

void Worker::Impl::on_arp(uint8_t port, const wire::ArpPacket& packet) {
  carry_out(neighbours.handle_arp(port, packet, now));
  router.broadcast_neighbour_update(WorkerMessage::ArpUpdate{port, packet});
}

void Worker::Impl::on_ndp(uint8_t port, const link::NdpArrival& arrival) {
  carry_out(neighbours.handle_ndp(port, arrival, now));
  router.broadcast_neighbour_update(WorkerMessage::NdpUpdate{port, arrival});
  follow_neighbours();
}

void Worker::Impl::carry_out(const link::NeighbourHandled& handled) {
  if (handled.drop) drop(*handled.drop);
  if (handled.reply) send_neighbour(*handled.reply);
}

/// Brings the routes up to what neighbour discovery found out.
void Worker::Impl::follow_neighbours() {
  const link::Ndp& ndp = neighbours.ndp();
  if (ndp.generation() == ndp_seen) return;
  ndp_seen = ndp.generation();
  bool has_lost = false;
  for (const link::Ndp::Own& own : ndp.addresses()) {
    routes.set_state(own.address.address, own.state);
    has_lost = has_lost || own.state == link::AddressState::kDuplicate;
  }
  for (uint8_t port = 0; port < ports.size(); ++port) {
    routes.set_default_router(port, ndp.default_router(port));
  }
  if (has_lost) lost_addresses_walk.begin();
}

/// Sessions from an address that another host has turned out to have: they never sent anything.
/// A step of the turn by itself: no segment is being merged for them then.
size_t Worker::Impl::leave_lost_addresses() {
  if (!lost_addresses_walk.is_under_way()) return 0;
  return lost_addresses_walk.step(engine.index_bound(), kConnectionsPerWalkStepMax,
                                  [this](uint32_t conn) {
                                    if (!engine.is_open(conn) || session(conn).is_over) return;
                                    if (!routes.is_lost(engine.tuple(conn).local.address)) return;
                                    abort_session(conn, channel::EndStatus::kUnreachable);
                                  });
}

size_t Worker::Impl::run_neighbour_timers() {
  if (neighbours.next_deadline() > now) return 0;
  link::NeighbourOutList out;
  neighbours.on_timer(now, out);
  for (const link::NeighbourOut& packet : out) send_neighbour(packet);
  follow_neighbours();
  return out.size();
}

void Worker::Impl::send_neighbour(const link::NeighbourOut& out) {
  io::PacketBuf* packet = alloc_tx();
  if (packet == nullptr) return drop(Drop::kTxNoBuffer);
  link::write_neighbour_frame(*packet, ports[out.port].mac(), out);
  send_packet(out.port, packet);
}

/// The MAC to send to; empty while it is not known. TCP is not asked for a segment until then.
std::optional<MacAddress> Worker::Impl::neighbour_of(uint32_t conn) {
  session::Session& sender = session(conn);
  if (sender.is_local) return ports[sender.port].mac();
  const auto port = static_cast<uint8_t>(sender.port);
  link::Resolved resolved = neighbours.resolve(port, sender.next_hop, now);
  if (resolved.answer == link::Answer::kUnreachable && reroute(conn)) {
    resolved = neighbours.resolve(port, sender.next_hop, now);
  }
  if (!sender.holds_neighbour) sender.holds_neighbour = neighbours.hold(port, sender.next_hop);
  if (resolved.answer == link::Answer::kKnown) return resolved.mac;
  transmit_queue.wait_for_neighbour(conn);
  if (resolved.answer == link::Answer::kUnreachable) {
    tcp::Effects effects;
    engine.on_host_unreachable(conn, now, effects);
    apply(conn, effects);
  }
  return std::nullopt;
}

/// The neighbour does not answer: true when another one leads there by now.
bool Worker::Impl::reroute(uint32_t conn) {
  const FourTuple& tuple = engine.tuple(conn);
  const auto route = routes.lookup_from(tuple.local.address, tuple.remote.address);
  if (!route || route->next_hop == session(conn).next_hop) return false;
  release_neighbour(session(conn));
  session(conn).next_hop = route->next_hop;
  return true;
}

void Worker::Impl::release_neighbour(session::Session& sender) {
  if (!sender.holds_neighbour) return;
  neighbours.release(sender.port, sender.next_hop);
  sender.holds_neighbour = false;
}

}  // namespace lyre::worker
