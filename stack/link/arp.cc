#include "stack/link/arp.h"

#include "stack/base/check.h"

namespace lyre::link {
namespace {

bool is_usable_sender(const wire::ArpPacket& packet) {
  const bool is_unicast = is_ipv4_unicast(packet.sender_ip.as_v4());
  return is_unicast && !packet.sender_mac.is_group() && packet.sender_mac != MacAddress{};
}

NeighbourOut out_of(uint8_t port, MacAddress destination, const wire::ArpPacket& packet) {
  NeighbourOut out;
  out.port = port;
  out.destination = destination;
  out.arp = packet;
  return out;
}

}  // namespace

void Arp::set_port(uint8_t port, MacAddress mac, std::span<const InterfaceAddress> addresses,
                   Nanos now) {
  LYRE_CHECK(port < kPortsMax);  // a number that the worker assigned
  ports_[port] = Port{};
  ports_[port].mac = mac;
  for (const InterfaceAddress& address : addresses) {
    if (!address.address.is_v4()) continue;
    Own own{.address = address, .defended_at = now};
    begin_announcing(own, now);
    ports_[port].addresses.push(own);
  }
}

void Arp::on_link_up(uint8_t port, Nanos now) {
  for (Own& own : ports_[port].addresses) begin_announcing(own, now);
}

void Arp::begin_announcing(Own& own, Nanos now) const {
  if (!speaks_) return;
  own.announcements_left = kArpAnnounceCount;
  own.probes_left = kArpProbeCount;
  own.announce_at = now;
}

NeighbourHandled Arp::handle(uint8_t port, const wire::ArpPacket& packet, NeighbourCache& cache,
                             Nanos now) {
  Port& here = ports_[port];
  // Some links loop a host's own frames back.
  if (here.addresses.empty() || packet.sender_mac == here.mac) return dropped(Drop::kArpNotForUs);
  if (Own* claimed = find_own(here, packet.sender_ip)) {
    defend(*claimed, now);
    return dropped(Drop::kArpConflict);
  }
  const Own* asked = find_own(here, packet.target_ip);
  const bool is_request = packet.operation == wire::ArpOperation::kRequest;
  NeighbourHandled out;
  if (asked != nullptr && is_request) {
    out.reply = out_of(port, packet.sender_mac,
                       {wire::ArpOperation::kReply, here.mac, packet.target_ip, packet.sender_mac,
                        packet.sender_ip});
  }
  bool is_news = false;
  if (is_usable_sender(packet)) {
    // RFC 826, "Packet Reception": any packet updates a known pair. A new pair is added only from a
    // packet for this host, so that the traffic of others does not fill the cache.
    if (asked != nullptr && !is_request) {
      const Advertised said{packet.sender_mac, true, true};
      is_news =
          cache.advertise(port, packet.sender_ip, said, now) == NeighbourCache::Heeded::kTaken;
    }
    const bool may_add = asked != nullptr && asked->address.has_on_link(packet.sender_ip);
    if (!is_news) is_news = cache.learn(port, packet.sender_ip, packet.sender_mac, may_add, now);
  }
  if (!is_news && !out.reply) out.drop = Drop::kArpNotForUs;
  return out;
}

/// RFC 5227 2.4 (c): a host that keeps its address defends it, at most once in DEFEND_INTERVAL.
void Arp::defend(Own& own, Nanos now) const {
  if (!speaks_ || now - own.defended_at < kArpDefendInterval) return;
  own.defended_at = now;
  own.announcements_left = 1;
  own.announce_at = now;
}

NeighbourOut Arp::request(const Solicit& asked) const {
  const Port& port = ports_[asked.port];
  // Of several addresses, the one in the neighbour's network is the sender address.
  const Own* from = port.addresses.begin();
  for (const Own& own : port.addresses) {
    if (own.address.has_on_link(asked.ip)) from = &own;
  }
  return out_of(
      asked.port, asked.mac.value_or(kMacBroadcast),
      {wire::ArpOperation::kRequest, port.mac, from->address.address, MacAddress{}, asked.ip});
}

NeighbourOut Arp::announcement(uint8_t port) const {
  return announcement_of(port, ports_[port].addresses[0]);
}

/// RFC 5227 3: an announcement is a request whose sender and target are the same address.
NeighbourOut Arp::announcement_of(uint8_t port, const Own& own) const {
  const IpAddress& address = own.address.address;
  return out_of(port, kMacBroadcast,
                {wire::ArpOperation::kRequest, ports_[port].mac, address, MacAddress{}, address});
}

/// RFC 5227 2.1.1: a probe names no sender address, so that no neighbour learns from it.
NeighbourOut Arp::probe_of(uint8_t port, const Own& own) const {
  return out_of(port, kMacBroadcast,
                {wire::ArpOperation::kRequest, ports_[port].mac, IpAddress::v4(0), MacAddress{},
                 own.address.address});
}

void Arp::on_timer(Nanos now, NeighbourOutList& out) {
  for (uint8_t port = 0; port < kPortsMax; ++port) {
    for (Own& own : ports_[port].addresses) {
      if (own.announce_at > now || !step(port, own, out)) continue;
      const bool is_done = own.announcements_left == 0 && own.probes_left == 0;
      own.announce_at = is_done ? kNever : now + kArpAnnounceInterval;
    }
  }
}

/// Sends the next announcement and the next probe. False: there is no room for both.
bool Arp::step(uint8_t port, Own& own, NeighbourOutList& out) const {
  if (out.room() < 2) return false;
  if (own.announcements_left > 0) {
    out.push(announcement_of(port, own));
    --own.announcements_left;
  }
  if (own.probes_left > 0) {
    out.push(probe_of(port, own));
    --own.probes_left;
  }
  return true;
}

Nanos Arp::next_deadline() const {
  Nanos deadline = kNever;
  for (const Port& port : ports_) {
    for (const Own& own : port.addresses) deadline = earlier(deadline, own.announce_at);
  }
  return deadline;
}

Arp::Own* Arp::find_own(Port& port, const IpAddress& address) {
  for (Own& own : port.addresses) {
    if (own.address.address == address) return &own;
  }
  return nullptr;
}

}  // namespace lyre::link
