#include "stack/link/neighbours.h"

#include "stack/base/check.h"
#include "stack/base/ipv6_address.h"

namespace lyre::link {

void Neighbours::set_port(uint8_t port, const NdpPort& description, Nanos now) {
  cache_.set_capacity(port, description.neighbours_max);
  arp_.set_port(port, description.mac, description.addresses, now);
  ndp_.set_port(port, description, now);
  for (const InterfaceAddress& own : description.addresses) {
    if (!own.address.is_v4()) mld_.join(port, solicited_node_group(own.address), now);
  }
  find_deadline();
}

void Neighbours::on_link_up(uint8_t port, Nanos now) {
  LYRE_CHECK(port < kPortsMax);  // from the control thread, for a configured port
  cache_.forget(port, now);
  arp_.on_link_up(port, now);
  ndp_.on_link_up(port, now);
  mld_.speak_up(port, now);
  find_deadline();
}

Resolved Neighbours::resolve(uint8_t port, const IpAddress& next_hop, Nanos now,
                             const IpAddress& source) {
  if (port >= kPortsMax) return {Answer::kUnreachable, {}};
  if (next_hop.is_v4()) {
    if (!arp_.has_address(port)) return {Answer::kUnreachable, {}};
  } else {
    const Answer readiness = ndp_.readiness(port, source);
    if (readiness != Answer::kKnown) return {readiness, {}};
  }
  const Resolved out = cache_.resolve(port, next_hop, now);
  next_deadline_ = earlier(next_deadline_, cache_.next_deadline());
  return out;
}

void Neighbours::doubt(uint8_t port, const IpAddress& next_hop, Nanos now) {
  if (port >= kPortsMax) return;
  cache_.doubt(port, next_hop, now);
  next_deadline_ = earlier(next_deadline_, cache_.next_deadline());
}

NeighbourHandled Neighbours::handle_arp(uint8_t port, const wire::ArpPacket& packet, Nanos now) {
  if (port >= kPortsMax) return {std::nullopt, Drop::kArpNotForUs};
  const NeighbourHandled out = arp_.handle(port, packet, cache_, now);
  find_deadline();
  return out;
}

NeighbourHandled Neighbours::handle_ndp(uint8_t port, const NdpArrival& arrival, Nanos now) {
  if (port >= kPortsMax) return {std::nullopt, Drop::kNdpNotForUs};
  const NeighbourHandled out = ndp_.handle(port, arrival, cache_, now);
  find_deadline();
  return out;
}

NeighbourHandled Neighbours::handle_mld(uint8_t port, const wire::MldQuery& query, Nanos now) {
  const bool is_ours = mld_.handle(port, query, now);
  find_deadline();
  if (is_ours) return {};
  return {std::nullopt, Drop::kIcmpIgnored};
}

void Neighbours::follow_ndp(Nanos now) {
  for (uint8_t port = 0; port < kPortsMax; ++port) {
    if (has_spoken_up_[port] || !ndp_.link_local_of(port)) continue;
    has_spoken_up_[port] = true;
    mld_.speak_up(port, now);
  }
}

void Neighbours::on_timer(Nanos now, NeighbourOutList& out) {
  if (now < next_deadline_) return;
  arp_.on_timer(now, out);
  // The solicited-node group is joined before its address is probed for (RFC 4862 5.4.2).
  mld_.on_timer(ndp_, now, out);
  ndp_.on_timer(now, out);
  follow_ndp(now);
  if (out.empty()) ask_neighbours(now, out);
  find_deadline();
}

/// REQUIRES: `out` is empty.
void Neighbours::ask_neighbours(Nanos now, NeighbourOutList& out) {
  SolicitList asked;
  cache_.on_timer(now, asked);
  for (const Solicit& each : asked) {
    if (each.ip.is_v4()) {
      out.push(arp_.request(each));
    } else if (const auto question = ndp_.solicitation(each)) {
      out.push(*question);
    }
  }
  for (const LostNeighbour& lost : cache_.lost()) ndp_.suspect(lost.port, lost.ip, now);
}

void Neighbours::take_back(const NeighbourOut& out) {
  if (out.kind == NeighbourOut::Kind::kMld) return;
  const bool is_arp = out.kind == NeighbourOut::Kind::kArp;
  const IpAddress& asked = is_arp ? out.arp.target_ip : out.ndp.message.target;
  cache_.board().forget_question(cache_.board().place_of(out.port, asked));
}

std::optional<NeighbourOut> Neighbours::announcement(uint8_t port) const {
  if (arp_.has_address(port)) return arp_.announcement(port);
  return ndp_.announcement(port);
}

void Neighbours::find_deadline() {
  next_deadline_ = earlier(earlier(cache_.next_deadline(), mld_.next_deadline()),
                           earlier(arp_.next_deadline(), ndp_.next_deadline()));
}

}  // namespace lyre::link
