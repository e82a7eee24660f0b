#include "stack/worker/neighbourhood.h"

#include <cstring>
#include <variant>

#include "stack/base/bounded_vector.h"
#include "stack/base/check.h"
#include "stack/base/interface_address.h"
#include "stack/base/ipv6_address.h"
#include "stack/link/ndp.h"
#include "stack/worker/turn_limits.h"
#include "stack/worker/worker.h"

namespace lyre::worker {
namespace {

// A gateway of each family, and a route, may need a second place for a router outside the network.
static_assert(ip::kRoutesMax >=
              ip::kOwnAddressesMax + size_t{4} * kPortsMax + size_t{2} * kRoutesMax + kPortsMax);

/// The address of ours that this message uses: a solicitation that is sent from it, or what it is
/// about.
const IpAddress& claimed_by(const link::NdpPacket& packet) {
  const bool is_from_it = packet.message.type == wire::NdpType::kNeighbourSolicitation &&
                          !packet.addresses.source.is_unspecified();
  return is_from_it ? packet.addresses.source : packet.message.target;
}

/// The neighbour whose MAC the message may contain.
const IpAddress& subject_of(const link::NdpPacket& packet) {
  const bool is_own_word = packet.message.type == wire::NdpType::kNeighbourAdvertisement;
  return is_own_word ? packet.message.target : packet.addresses.source;
}

}  // namespace

void Neighbourhood::add_port(const PortBinding& binding) {
  const auto index = static_cast<uint8_t>(state_.ports.size());
  const Port& port = state_.ports.emplace_back(*binding.io, binding.mtu_bytes, binding.marking);
  const MacAddress mac = port.mac();
  BoundedVector<InterfaceAddress, kPortAddressesMax> addresses;
  bool has_ipv6 = false;
  bool has_link_local = false;
  for (const InterfaceAddress& address : binding.addresses) {
    addresses.push(address);
    has_ipv6 = has_ipv6 || !address.address.is_v4();
    has_link_local = has_link_local || is_ipv6_link_local(address.address);
  }
  // RFC 4291 2.1: every interface of IPv6 has a link-local address. Beside the kernel it is the
  // kernel's, which would get the answers.
  const bool derives_one = has_ipv6 && !port.capabilities().is_beside_kernel;
  if (derives_one && !has_link_local) addresses.push({link_local_address(mac), 64});
  for (const InterfaceAddress& address : addresses) {
    // At start only: the configuration was checked for number and sense, and PortSet::open()
    // compared the link-local addresses.
    LYRE_CHECK(state_.routes.add_address(index, address.address, address.prefix_bits));
  }
  state_.neighbours.set_port(index,
                             {.mac = mac,
                              .addresses = {addresses.begin(), addresses.size()},
                              .takes_routers = binding.takes_routers,
                              .neighbours_max = binding.neighbours_max,
                              .verified = binding.verified_addresses},
                             state_.now);
  for (const IpAddress& gateway : binding.gateways) {
    add_route(index, ip::Prefix::all_of_family(gateway), gateway);
  }
}

void Neighbourhood::add_route(uint8_t index, const ip::Prefix& to, const IpAddress& gateway) {
  if (state_.routes.add_route(to, gateway, index)) return;
  // A gateway outside the port's prefix is reached directly all the same (clouds do that).
  // At start only: daemon/config/config_routes.cc refuses what would not fit, and its test tries
  // what it lets pass.
  LYRE_CHECK(state_.routes.add_on_link({gateway, 128}, index));
  LYRE_CHECK(state_.routes.add_route(to, gateway, index));
}

void Neighbourhood::on_arp(uint8_t port, const wire::ArpPacket& packet) {
  const uint32_t known = state_.neighbours.cache().generation();
  const link::NeighbourHandled handled = state_.neighbours.handle_arp(port, packet, state_.now);
  carry_out(handled);
  const WorkerMessage::ArpUpdate update{port, packet};
  if (handled.drop == Drop::kArpConflict) {
    show_claim(port, packet.sender_ip, packet.sender_mac);
    constexpr uint64_t kDefender = uint64_t{1} << link::kSpeaker;
    state_.router.share_neighbour_update(update, kDefender);
    return state_.router.wake_for_update(kDefender);
  }
  // The other workers learn a new neighbour of this host, too, which saves their questions.
  const bool is_news = state_.neighbours.cache().generation() != known;
  share(update, port, packet.sender_ip, is_news ? kAllWorkers : 0);
}

void Neighbourhood::on_ndp(uint8_t port, const link::NdpArrival& arrival) {
  const uint32_t known = state_.neighbours.cache().generation();
  const uint32_t own = state_.neighbours.ndp().generation();
  const link::NeighbourHandled handled = state_.neighbours.handle_ndp(port, arrival, state_.now);
  carry_out(handled);
  if (handled.drop == Drop::kNdpConflict) {
    show_claim(port, claimed_by(arrival.packet), arrival.sender_mac);
  }
  const bool is_change = state_.neighbours.ndp().generation() != own;
  const bool is_news = state_.neighbours.cache().generation() != known;
  const bool is_for_all = is_change || concerns_all(port, arrival.packet, handled, is_news);
  // What this worker must drop the others must drop, too, unless it is about a neighbour that only
  // they know.
  const bool is_advertisement =
      arrival.packet.message.type == wire::NdpType::kNeighbourAdvertisement;
  if (is_for_all || is_advertisement || !handled.drop) {
    share(WorkerMessage::NdpUpdate{port, arrival}, port, subject_of(arrival.packet),
          is_for_all ? kAllWorkers : 0);
  }
  // Sessions from a lost address end at once, and those through a lost router move.
  if (is_change) state_.router.wake_for_update(kAllWorkers);
  update_routes();
}

/// Sends the other workers what a neighbour, `subject`, has said: those that may have an entry for
/// it, and `besides`. Only those that wait for its MAC are woken. What strangers tell each other
/// goes to nobody.
void Neighbourhood::share(const WorkerMessage::Body& update, uint8_t port, const IpAddress& subject,
                          uint64_t besides) {
  if (state_.router.is_alone()) return;
  link::NeighbourBoard& board = state_.neighbours.cache().board();
  const link::NeighbourBoard::Place place = board.place_of(port, subject);
  board.forget_question(place);
  state_.router.share_neighbour_update(update, board.knowers(place) | besides);
  state_.router.wake_for_update(board.waiters(place));
}

/// Whether workers without an entry for the neighbour take something from the message, too.
bool Neighbourhood::concerns_all(uint8_t port, const link::NdpPacket& packet,
                                 const link::NeighbourHandled& handled, bool is_news) const {
  switch (packet.message.type) {
    case wire::NdpType::kRouterAdvertisement:
      return !handled.drop;
    case wire::NdpType::kNeighbourSolicitation:
      // They learn a new neighbour, and that a router which did not answer them is there.
      return is_news ||
             (!handled.drop && state_.neighbours.ndp().is_router(port, packet.addresses.source));
    case wire::NdpType::kNeighbourAdvertisement:
    case wire::NdpType::kRouterSolicitation:
    case wire::NdpType::kRedirect:
      return false;
  }
  return false;
}

void Neighbourhood::on_mld(uint8_t port, const wire::MldQuery& query) {
  carry_out(state_.neighbours.handle_mld(port, query, state_.now));
}

void Neighbourhood::carry_out(const link::NeighbourHandled& handled) {
  if (handled.drop) state_.drop(*handled.drop);
  if (handled.reply) static_cast<void>(output_.send_neighbour(*handled.reply));
}

void Neighbourhood::show_claim(uint8_t port, const IpAddress& claimed, MacAddress claimant) {
  if (port >= state_.stats.queues.size()) return;
  channel::ClaimView view{};
  std::memcpy(view.address, claimed.bytes.data(), sizeof view.address);
  std::memcpy(view.mac, claimant.bytes.data(), sizeof view.mac);
  view.seen_unix_ns = state_.now.value + state_.config.unix_offset_ns;
  state_.stats.queues[port].claim.write(&view);
}

void Neighbourhood::update_routes() {
  const link::Ndp& ndp = state_.neighbours.ndp();
  if (ndp.generation() == ndp_seen_) return;
  ndp_seen_ = ndp.generation();
  bool has_lost = false;
  for (const link::Ndp::Own& own : ndp.addresses()) {
    state_.routes.set_state(own.address.address, own.state);
    has_lost = has_lost || own.state == link::AddressState::kDuplicate;
  }
  for (uint8_t port = 0; port < state_.ports.size(); ++port) {
    state_.routes.set_default_router(port, ndp.default_router(port));
  }
  if (has_lost) lost_addresses_walk_.begin();
}

size_t Neighbourhood::leave_lost_addresses() {
  const auto leave = [this](uint32_t conn) {
    if (!state_.engine.is_open(conn) || state_.session(conn).is_over) return;
    if (!state_.routes.is_lost(state_.engine.tuple(conn).local.address)) return;
    lifecycle_.abort(conn, channel::EndStatus::kAddressLost);
  };
  return lost_addresses_walk_.step(state_.engine.index_bound(), kConnectionsPerWalkStepMax, leave);
}

/// Some drivers make a system call to tell, so they are asked only where an address waits for it.
void Neighbourhood::look_at_links() {
  for (uint8_t port = 0; port < state_.ports.size(); ++port) {
    if (!state_.neighbours.ndp().needs_link(port, state_.now)) continue;
    state_.neighbours.set_link(port, state_.ports[port].is_link_up());
  }
}

size_t Neighbourhood::run_timers() {
  if (state_.neighbours.next_deadline() > state_.now) return 0;
  look_at_links();
  link::NeighbourOutList out;
  state_.neighbours.on_timer(state_.now, out);
  for (const link::NeighbourOut& packet : out) {
    if (!output_.send_neighbour(packet)) state_.neighbours.take_back(packet);
  }
  update_routes();
  return out.size();
}

void Neighbourhood::on_update(const WorkerMessage& message) {
  if (const auto* arp = std::get_if<WorkerMessage::ArpUpdate>(&message.body)) {
    static_cast<void>(state_.neighbours.handle_arp(arp->port, arp->packet, state_.now));
  } else if (const auto* ndp = std::get_if<WorkerMessage::NdpUpdate>(&message.body)) {
    static_cast<void>(state_.neighbours.handle_ndp(ndp->port, ndp->arrival, state_.now));
    update_routes();
  }
}

}  // namespace lyre::worker
