#include "stack/link/ndp.h"

#include <algorithm>
#include <utility>

#include "stack/base/check.h"
#include "stack/base/ipv6_address.h"
#include "stack/base/rng.h"

namespace lyre::link {
namespace {

NeighbourOut out_of(uint8_t port, MacAddress destination, const NdpPacket& packet) {
  NeighbourOut out;
  out.port = port;
  out.kind = NeighbourOut::Kind::kNdp;
  out.destination = destination;
  out.ndp = packet;
  return out;
}

}  // namespace

void Ndp::set_port(uint8_t port, const NdpPort& description, Nanos now) {
  LYRE_CHECK(port < kPortsMax);  // a number that the worker assigned
  ports_[port] = Port{.takes_routers = description.takes_routers, .mac = description.mac};
  for (const InterfaceAddress& address : description.addresses) {
    if (address.address.is_v4()) continue;
    const auto& verified = description.verified;
    const bool is_verified =
        std::find(verified.begin(), verified.end(), address.address) != verified.end();
    const bool is_ready = is_verified && description.takes_routers;
    if (is_ready && is_ipv6_link_local(address.address)) {
      ports_[port].solicit_routers(now + first_question_after_);
    }
    own_.push(Own{.address = address,
                  .port = port,
                  .number = static_cast<uint8_t>(own_.size()),
                  .state = is_verified ? AddressState::kUsable : AddressState::kTentative,
                  .sends_left = is_verified ? kNdpAnnounceCount : kDadProbes,
                  .was_delayed = is_verified,
                  .deadline = speaks_ || !is_verified ? now : kNever});
  }
  look_at_states();
}

void Ndp::set_link(uint8_t port, bool is_up) {
  Port& linked = ports_[port];
  linked.is_link_up = is_up;
  if (!is_up) return;
  linked.no_link_since = kNever;
  if (std::exchange(linked.lacks_link, false)) ++generation_;
}

void Ndp::on_link_up(uint8_t port, Nanos now) {
  set_link(port, true);
  for (Own& own : own_) {
    if (own.port != port || own.state == AddressState::kDuplicate) continue;
    const bool is_tentative = own.state == AddressState::kTentative;
    own.sends_left = is_tentative ? kDadProbes : kNdpAnnounceCount;
    if (speaks_ || is_tentative) own.deadline = now;
  }
  trust_all(port);
  ports_[port].may_solicit_at = now;  // the last solicitation may be lost
  if (ports_[port].takes_routers && link_local_of(port)) {
    ports_[port].solicit_routers(now + first_question_after_);
  }
}

NeighbourHandled Ndp::handle(uint8_t port, const NdpArrival& arrival, NeighbourCache& cache,
                             Nanos now) {
  // Some links loop a host's own frames back.
  if (arrival.sender_mac == ports_[port].mac) return dropped(Drop::kNdpNotForUs);
  switch (arrival.packet.message.type) {
    case wire::NdpType::kNeighbourSolicitation:
      return on_solicitation(port, arrival, cache, now);
    case wire::NdpType::kNeighbourAdvertisement:
      return on_advertisement(port, arrival, cache, now);
    case wire::NdpType::kRouterAdvertisement:
      return on_router(port, arrival, cache, now);
    case wire::NdpType::kRouterSolicitation:  // RFC 4861 6.2.6: only routers handle it
    case wire::NdpType::kRedirect:            // ignored: a connection keeps its first router
      break;
  }
  return dropped(Drop::kNdpNotForUs);
}

NeighbourHandled Ndp::on_solicitation(uint8_t port, const NdpArrival& arrival,
                                      NeighbourCache& cache, Nanos now) {
  const wire::NdpMessage& message = arrival.packet.message;
  const IpAddress& asker = arrival.packet.addresses.source;
  Own* own = find_own(port, message.target);
  if (own == nullptr) return dropped(Drop::kNdpNotForUs);
  if (own->state != AddressState::kUsable) {
    // RFC 4862 5.4.3: a solicitation from the unspecified address is a probe by a host for this
    // address. Any other solicitation does not conflict with a tentative address.
    if (!asker.is_unspecified()) return dropped(Drop::kNdpNotForUs);
    adopt(*own, board_->decide(own->number, AddressState::kDuplicate), now);
    return dropped(Drop::kNdpConflict);
  }
  NeighbourHandled out;
  if (asker.is_unspecified()) {  // RFC 4861 7.2.4: no unicast reply is possible
    out.reply = advertisement_of(*own);
    return out;
  }
  if (find_own(port, asker) != nullptr) return dropped(Drop::kNdpConflict);
  if (message.source_mac) {
    const bool may_add = is_on_link(port, asker);
    if (cache.learn(port, asker, *message.source_mac, may_add, now)) trust(port, asker);
  }
  out.reply = advertisement_of(*own);
  out.reply->destination = message.source_mac.value_or(arrival.sender_mac);
  out.reply->ndp.addresses.destination = asker;
  out.reply->ndp.message.is_solicited = true;
  return out;
}

NeighbourHandled Ndp::on_advertisement(uint8_t port, const NdpArrival& arrival,
                                       NeighbourCache& cache, Nanos now) {
  const wire::NdpMessage& message = arrival.packet.message;
  if (Own* own = find_own(port, message.target)) {
    // RFC 4862 5.4.4: an advertisement for a tentative address means that another host has it.
    if (own->state == AddressState::kTentative) {
      adopt(*own, board_->decide(own->number, AddressState::kDuplicate), now);
    }
    return dropped(Drop::kNdpConflict);
  }
  const Advertised said{message.target_mac, message.is_solicited, message.overrides};
  const auto heeded = cache.advertise(port, message.target, said, now);
  if (heeded == NeighbourCache::Heeded::kNoEntry) return dropped(Drop::kNdpNotForUs);
  if (heeded != NeighbourCache::Heeded::kTaken) return {};
  trust(port, message.target);
  // RFC 4861 7.2.5: a neighbour that is no longer a router is removed from the default routers.
  if (!message.is_router) remove_router(port, message.target, now);
  return {};
}

NeighbourHandled Ndp::on_router(uint8_t port, const NdpArrival& arrival, NeighbourCache& cache,
                                Nanos now) {
  const wire::NdpMessage& message = arrival.packet.message;
  const IpAddress& router = arrival.packet.addresses.source;
  if (!ports_[port].takes_routers || find_own(port, router) != nullptr) {
    return dropped(Drop::kNdpNotForUs);
  }
  if (message.source_mac && cache.learn(port, router, *message.source_mac, true, now)) {
    trust(port, router);
  }
  if (message.router_lifetime_s == 0) {
    remove_router(port, router, now);
  } else {
    ports_[port].solicit_at = kNever;  // RFC 7559 2.1: such an answer ends the solicitations
    const Nanos expires_at = now + seconds(message.router_lifetime_s);
    add_router({router, port, message.preference, expires_at});
  }
  return {};
}

/// A port whose places are taken replaces a router that does not answer, or one whose preference is
/// lower.
void Ndp::add_router(const Router& heard) {
  if (Router* known = find_router(heard.port, heard.address)) {
    if (known->preference != heard.preference) ++generation_;
    known->preference = heard.preference;
    known->expires_at = heard.expires_at;
    return;
  }
  Router* worst = nullptr;
  size_t count = 0;
  for (Router& router : routers_) {
    if (router.port != heard.port) continue;
    ++count;
    if (worst == nullptr || worst->goes_before(router)) worst = &router;
  }
  if (count < kRoutersPerPortMax) {
    routers_.push(heard);
  } else if (worst->suspicion != 0 || heard.preference > worst->preference) {
    *worst = heard;
  } else {
    return;
  }
  ++generation_;
}

void Ndp::remove_router(uint8_t port, const IpAddress& address, Nanos now) {
  Router* known = find_router(port, address);
  if (known == nullptr) return;
  *known = routers_.back();
  routers_.pop_back();
  ++generation_;
  // Another one may have come meanwhile, whose next advertisement is minutes away.
  // The answer to the speaker reaches the other workers, too.
  if (!default_router(port)) ports_[port].solicit_routers(now + first_question_after_);
}

void Ndp::suspect(uint8_t port, const IpAddress& address, Nanos now) {
  Router* router = find_router(port, address);
  if (router == nullptr) return;
  const auto before = default_router(port);
  router->suspicion = ++suspicions_;
  if (default_router(port) != before) ++generation_;
  // All routers that are known may be gone, and another one may have come.
  const bool is_asking = ports_[port].solicit_at != kNever;
  if (best_router(port)->suspicion != 0 && !is_asking) {
    ports_[port].solicit_routers(now + first_question_after_);
  }
}

/// A message of the neighbour has given its MAC, so it may answer again.
void Ndp::trust(uint8_t port, const IpAddress& address) {
  Router* router = find_router(port, address);
  if (router == nullptr || router->suspicion == 0) return;
  const auto before = default_router(port);
  router->suspicion = 0;
  if (default_router(port) != before) ++generation_;
}

/// While a link is down no router answers, so what was found then does not count.
void Ndp::trust_all(uint8_t port) {
  for (const Router& router : routers_) {
    if (router.port == port) trust(port, router.address);
  }
}

/// RFC 4861 6.3.6: routers that may answer come first, and those that did not take turns: the one
/// whose silence was noticed first is the next. RFC 4191 3.2: then the preference counts. Between
/// equal routers the choice is deterministic and independent of the order of arrival.
bool Ndp::Router::goes_before(const Router& other) const {
  if (suspicion != other.suspicion) return suspicion < other.suspicion;
  if (preference != other.preference) return preference > other.preference;
  return address < other.address;
}

const Ndp::Router* Ndp::best_router(uint8_t port) const {
  const Router* best = nullptr;
  for (const Router& router : routers_) {
    if (router.port != port) continue;
    if (best == nullptr || router.goes_before(*best)) best = &router;
  }
  return best;
}

std::optional<IpAddress> Ndp::default_router(uint8_t port) const {
  const Router* best = best_router(port);
  if (best == nullptr) return std::nullopt;
  return best->address;
}

bool Ndp::is_router(uint8_t port, const IpAddress& address) const {
  return std::any_of(routers_.begin(), routers_.end(), [&](const Router& router) {
    return router.port == port && router.address == address;
  });
}

/// RFC 4862 5.4.5: a port whose link-local address is a duplicate does not use IPv6.
void Ndp::mark_duplicate(const Own& own) {
  const bool is_all = is_ipv6_link_local(own.address.address);
  for (Own& other : own_) {
    if (&other != &own && !(is_all && other.port == own.port)) continue;
    board_->overrule(other.number);
    other.state = AddressState::kDuplicate;
    other.deadline = kNever;
  }
  look_at_states();
}

std::optional<NeighbourOut> Ndp::solicitation(const Solicit& asked) const {
  const Own* from = usable_for(asked.port, asked.ip);
  if (from == nullptr) return std::nullopt;
  wire::NdpMessage message;
  message.target = asked.ip;
  message.source_mac = ports_[asked.port].mac;
  const IpAddress group = solicited_node_group(asked.ip);
  const IpAddress& destination = asked.mac ? asked.ip : group;
  return out_of(asked.port, asked.mac.value_or(multicast_mac(group)),
                {{from->address.address, destination}, message});
}

std::optional<NeighbourOut> Ndp::announcement(uint8_t port) const {
  const Own* own = usable_for(port, IpAddress{});
  if (own == nullptr) return std::nullopt;
  return advertisement_of(*own);
}

/// The worker reads this every turn for every session, so the result is computed once per change.
void Ndp::look_at_states() {
  ++generation_;
  for (Port& port : ports_) {
    port.is_settled = true;
    port.has_usable = false;
  }
  for (const Own& own : own_) {
    Port& port = ports_[own.port];
    port.is_settled = port.is_settled && own.state != AddressState::kTentative;
    port.has_usable = port.has_usable || own.state == AddressState::kUsable;
  }
}

std::optional<IpAddress> Ndp::link_local_of(uint8_t port) const {
  const Own* own = usable_for(port, kAllNodes);
  if (own == nullptr || !is_ipv6_link_local(own->address.address)) return std::nullopt;
  return own->address.address;
}

void Ndp::on_timer(Nanos now, NeighbourOutList& out) {
  for (Own& own : own_) {
    if (own.deadline <= now) step(own, now, out);
  }
  for (uint8_t i = 0; i < kPortsMax; ++i) {
    if (ports_[i].solicit_at <= now) step_port(i, now, out);
  }
  step_routers(now);
}

void Ndp::step(Own& own, Nanos now, NeighbourOutList& out) {
  const bool is_tentative = own.state == AddressState::kTentative;
  Port& port = ports_[own.port];
  if (is_tentative && !port.is_link_up) {
    port.no_link_since = earlier(port.no_link_since, now);
    const bool is_over = now - port.no_link_since >= kLinkWaitMax;
    if (is_over && !std::exchange(port.lacks_link, true)) ++generation_;
    own.sends_left = kDadProbes;  // one that was sent before may be lost, too
    own.deadline = now + kLinkLookInterval;
    return;
  }
  if (!speaks_) return adopt(own, board_->state_of(own.number), now);
  if (!own.was_delayed) {
    // RFC 4862 5.4.2: a random delay keeps hosts that start together from probing together.
    own.was_delayed = true;
    Rng rng(seed_ ^ own.address.address.bytes[15] ^ static_cast<uint64_t>(own.port) << 8);
    const auto most = static_cast<uint64_t>(kFirstSolicitDelayMax.value);
    own.deadline = now + nanos(static_cast<int64_t>(rng.below(most)));
    return;
  }
  if (own.sends_left > 0) {
    if (!out.try_push(is_tentative ? probe_of(own) : advertisement_of(own))) return;
    --own.sends_left;
    own.deadline = is_tentative || own.sends_left > 0 ? now + kRetransmitTime : kNever;
    return;
  }
  // No host objected, unless another worker has heard one just now.
  adopt(own, board_->decide(own.number, AddressState::kUsable), now);
}

/// Follows what the workers found out about a tentative address.
void Ndp::adopt(Own& own, AddressState found, Nanos now) {
  if (found == AddressState::kTentative) {
    own.deadline = now + kFollowInterval;
    return;
  }
  if (found == AddressState::kDuplicate) return mark_duplicate(own);
  // Neighbours get an advertisement, because one of them may have cached another MAC.
  own.state = AddressState::kUsable;
  own.sends_left = kNdpAnnounceCount;
  own.deadline = speaks_ ? now : kNever;
  look_at_states();
  Port& port = ports_[own.port];
  // A worker that follows may have heard the answer to the speaker already.
  const bool must_ask = speaks_ || !default_router(own.port);
  if (must_ask && port.takes_routers && is_ipv6_link_local(own.address.address)) {
    port.solicit_routers(now + first_question_after_);
  }
}

void Ndp::Port::solicit_routers(Nanos at) {
  solicit_interval = kRouterSolicitInterval;
  solicit_at = later(at, may_solicit_at);
}

/// RFC 7559 2: within a tenth, so that hosts do not ask in step.
Nanos Ndp::randomised(Nanos interval) {
  Rng rng(seed_ ^ ++draws_);
  const auto spread = static_cast<uint64_t>((interval / 5).value);
  return interval - interval / 10 + nanos(static_cast<int64_t>(rng.below(spread)));
}

void Ndp::step_port(uint8_t index, Nanos now, NeighbourOutList& out) {
  Port& port = ports_[index];
  const Own* from = usable_for(index, kAllRouters);
  if (from == nullptr) {
    port.solicit_at = kNever;
    return;
  }
  wire::NdpMessage message;
  message.type = wire::NdpType::kRouterSolicitation;
  message.source_mac = port.mac;
  const NdpPacket packet{{from->address.address, kAllRouters}, message};
  if (!out.try_push(out_of(index, multicast_mac(kAllRouters), packet))) return;
  port.may_solicit_at = now + kRouterSolicitInterval;
  port.solicit_at = now + randomised(port.solicit_interval);
  port.solicit_interval = earlier(port.solicit_interval * 2, kRouterSolicitIntervalMax);
}

void Ndp::step_routers(Nanos now) {
  for (size_t i = 0; i < routers_.size();) {
    if (routers_[i].expires_at > now) {
      ++i;
    } else {
      remove_router(routers_[i].port, routers_[i].address, now);
    }
  }
}

bool Ndp::needs_link(uint8_t port, Nanos now) const {
  if (ports_[port].is_settled) return false;
  return std::any_of(own_.begin(), own_.end(), [&](const Own& own) {
    return own.port == port && own.state == AddressState::kTentative && own.deadline <= now;
  });
}

Nanos Ndp::next_deadline() const {
  Nanos deadline = kNever;
  for (const Own& own : own_) deadline = earlier(deadline, own.deadline);
  for (const Port& port : ports_) deadline = earlier(deadline, port.solicit_at);
  for (const Router& router : routers_) deadline = earlier(deadline, router.expires_at);
  return deadline;
}

/// RFC 4862 5.4.2: from the unspecified address to the solicited-node group.
NeighbourOut Ndp::probe_of(const Own& own) const {
  wire::NdpMessage message;
  message.target = own.address.address;
  const IpAddress group = solicited_node_group(message.target);
  return out_of(own.port, multicast_mac(group), {{IpAddress{}, group}, message});
}

/// RFC 4861 7.2.6: an unsolicited advertisement to all nodes.
NeighbourOut Ndp::advertisement_of(const Own& own) const {
  wire::NdpMessage message;
  message.type = wire::NdpType::kNeighbourAdvertisement;
  message.target = own.address.address;
  message.target_mac = ports_[own.port].mac;
  message.overrides = true;
  return out_of(own.port, multicast_mac(kAllNodes), {{message.target, kAllNodes}, message});
}

Ndp::Router* Ndp::find_router(uint8_t port, const IpAddress& address) {
  for (Router& router : routers_) {
    if (router.port == port && router.address == address) return &router;
  }
  return nullptr;
}

Ndp::Own* Ndp::find_own(uint8_t port, const IpAddress& address) {
  for (Own& own : own_) {
    if (own.port != port || own.address.address != address) continue;
    // An address that another host has is not an own address: it is resolved like any neighbour.
    return own.state == AddressState::kDuplicate ? nullptr : &own;
  }
  return nullptr;
}

const Ndp::Own* Ndp::usable_for(uint8_t port, const IpAddress& peer) const {
  const Own* best = nullptr;
  uint32_t best_rank = 0;
  for (const Own& own : own_) {
    if (own.port != port || own.state != AddressState::kUsable) continue;
    const uint32_t rank = source_rank(own.address.address, peer);
    if (rank <= best_rank) continue;
    best = &own;
    best_rank = rank;
  }
  return best;
}

bool Ndp::is_usable(uint8_t port, const IpAddress& address) const {
  for (const Own& own : own_) {
    if (own.port != port || own.address.address != address) continue;
    return own.state == AddressState::kUsable;
  }
  return false;
}

bool Ndp::is_on_link(uint8_t port, const IpAddress& address) const {
  for (const Own& own : own_) {
    if (own.port == port && own.address.has_on_link(address)) return true;
  }
  return false;
}

}  // namespace lyre::link
