#include "stack/link/arp_table.h"

#include <type_traits>

#include "stack/base/check.h"
#include "stack/base/rng.h"

namespace lyre::link {
namespace {

/// Older than every resolve(), so that unasked entries are replaced first.
constexpr Nanos kNeverUsed{INT64_MIN};

bool is_usable_sender(const wire::ArpPacket& packet) {
  const uint32_t ip = packet.sender_ip.as_v4();
  const bool is_unicast = ip != 0 && ip >> 28 < 14 && ip >> 24 != 127;
  return is_unicast && !packet.sender_mac.is_group() && packet.sender_mac != MacAddress{};
}

wire::ArpPacket request_for(MacAddress own_mac, const IpAddress& own_ip, const IpAddress& wanted) {
  return {wire::ArpOperation::kRequest, own_mac, own_ip, MacAddress{}, wanted};
}

}  // namespace

static_assert(std::is_trivially_copyable_v<ArpTable>);

ArpTable::ArpTable(uint64_t seed) : seed_(seed) {}

void ArpTable::set_port(uint8_t port, MacAddress mac, const IpAddress& address, uint8_t prefix_bits,
                        Nanos now) {
  LYRE_CHECK(port < kPortsMax && address.is_v4() && prefix_bits <= 32);
  ports_[port] = {true, mac, address, prefix_bits, kArpAnnounceCount, now, now};
  next_deadline_ = earlier(next_deadline_, now);
}

Resolved ArpTable::resolve(uint8_t port, const IpAddress& next_hop, Nanos now) {
  if (port >= kPortsMax || !ports_[port].is_set || !next_hop.is_v4()) {
    return {ArpAnswer::kUnreachable, {}};
  }
  Entry* entry = find(port, next_hop);
  if (entry == nullptr) {
    entry = &replace_in_bucket(port, next_hop);
    entry->state = EntryState::kAsking;
    set_deadline(*entry, now);
  }
  entry->used_at = now;
  switch (entry->state) {
    case EntryState::kKnown:
    case EntryState::kRefreshing:
      return {ArpAnswer::kKnown, entry->mac};
    case EntryState::kUnreachable:
      return {ArpAnswer::kUnreachable, {}};
    case EntryState::kFree:
    case EntryState::kAsking:
      break;
  }
  return {ArpAnswer::kPending, {}};
}

ArpHandled ArpTable::handle_arp(uint8_t port, const wire::ArpPacket& packet, Nanos now) {
  ArpHandled out;
  if (port >= kPortsMax || !ports_[port].is_set) {
    out.drop = Drop::kArpNotForUs;
    return out;
  }
  Port& own = ports_[port];
  if (packet.sender_mac == own.mac) {  // our own frame, reflected by the wire
    out.drop = Drop::kArpNotForUs;
    return out;
  }
  const bool is_for_us = packet.target_ip == own.address;
  if (packet.sender_ip == own.address) return handle_conflict(own, now);

  if (is_for_us && packet.operation == wire::ArpOperation::kRequest) {
    const wire::ArpPacket reply{wire::ArpOperation::kReply, own.mac, own.address, packet.sender_mac,
                                packet.sender_ip};
    out.reply = ArpOut{port, packet.sender_mac, reply};
  }
  if (is_usable_sender(packet)) {
    out.learned = ArpLearned{port, packet.sender_ip, packet.sender_mac, is_for_us};
    const bool was_known = find(port, packet.sender_ip) != nullptr;
    learn(*out.learned, now);
    if (!is_for_us && !was_known) out.drop = Drop::kArpNotForUs;
  } else if (!out.reply) {
    out.drop = Drop::kArpNotForUs;
  }
  return out;
}

/// RFC 5227 2.4 (c): a host that keeps its address defends it, once in DEFEND_INTERVAL.
ArpHandled ArpTable::handle_conflict(Port& port, Nanos now) {
  if (now - port.defended_at >= kArpDefendInterval) {
    port.defended_at = now;
    port.announcements_left = 1;
    port.announce_at = now;
    next_deadline_ = earlier(next_deadline_, now);
  }
  ArpHandled out;
  out.drop = Drop::kArpConflict;
  return out;
}

/// RFC 826, "Packet Reception": a pair that is known is updated by whatever names it; a new one is
/// added only when the packet was meant for us, so that strangers' chatter does not fill the table.
void ArpTable::learn(const ArpLearned& news, Nanos now) {
  if (news.port >= kPortsMax || !ports_[news.port].is_set) return;
  Entry* entry = find(news.port, news.ip);
  if (entry == nullptr) {
    if (!news.was_addressed_to_us || !is_on_link(ports_[news.port], news.ip)) return;
    entry = &replace_in_bucket(news.port, news.ip);
  }
  confirm(*entry, news.mac, now);
}

void ArpTable::on_timer(Nanos now, ArpOutList& out) {
  if (now < next_deadline_) return;
  next_deadline_ = kNever;
  for (uint8_t i = 0; i < kPortsMax; ++i) {
    if (ports_[i].announce_at <= now) announce(i, now, out);
    next_deadline_ = earlier(next_deadline_, ports_[i].announce_at);
  }
  for (Entry& entry : entries_) {
    if (entry.state == EntryState::kFree) continue;
    if (entry.deadline <= now) step(entry, now, out);
    if (entry.state != EntryState::kFree) set_deadline(entry, entry.deadline);
  }
}

uint32_t ArpTable::used() const {
  uint32_t count = 0;
  for (const Entry& entry : entries_) count += entry.state != EntryState::kFree;
  return count;
}

ArpTable::Entry* ArpTable::bucket_of(uint8_t port, const IpAddress& ip) {
  const uint64_t key = (uint64_t{port} << 32) | ip.as_v4();
  return &entries_[Rng(seed_ ^ key).below(kBuckets) * kWays];
}

ArpTable::Entry* ArpTable::find(uint8_t port, const IpAddress& ip) {
  Entry* bucket = bucket_of(port, ip);
  for (Entry* entry = bucket; entry < bucket + kWays; ++entry) {
    if (entry->state != EntryState::kFree && entry->port == port && entry->ip == ip) return entry;
  }
  return nullptr;
}

/// Takes a free entry, or the one whose last use is longest ago: what was learned unasked goes
/// before what is in use, whoever floods us with requests.
ArpTable::Entry& ArpTable::replace_in_bucket(uint8_t port, const IpAddress& ip) {
  Entry* bucket = bucket_of(port, ip);
  Entry* oldest = bucket;
  for (Entry* entry = bucket; entry < bucket + kWays; ++entry) {
    if (entry->state == EntryState::kFree) {
      oldest = entry;
      break;
    }
    if (entry->used_at < oldest->used_at) oldest = entry;
  }
  *oldest = Entry{};
  oldest->ip = ip;
  oldest->port = port;
  oldest->used_at = kNeverUsed;
  return *oldest;
}

void ArpTable::set_deadline(Entry& entry, Nanos at) {
  entry.deadline = at;
  next_deadline_ = earlier(next_deadline_, at);
}

void ArpTable::confirm(Entry& entry, MacAddress mac, Nanos now) {
  const bool is_news = entry.state == EntryState::kAsking ||
                       entry.state == EntryState::kUnreachable || entry.mac != mac;
  entry.mac = mac;
  entry.state = EntryState::kKnown;
  entry.tries = 0;
  set_deadline(entry, now + kArpReachable);
  if (is_news) ++generation_;
}

void ArpTable::step(Entry& entry, Nanos now, ArpOutList& out) {
  switch (entry.state) {
    case EntryState::kFree:
      return;
    case EntryState::kKnown:
      return step_known(entry, now, out);
    case EntryState::kRefreshing:
      if (entry.tries < kArpTriesMax) return ask(entry, entry.mac, now, out);
      // The address may have moved to another machine: forget the old MAC and ask everybody.
      entry.state = EntryState::kAsking;
      entry.tries = 0;
      [[fallthrough]];
    case EntryState::kAsking:
      if (entry.tries < kArpTriesMax) return ask(entry, kMacBroadcast, now, out);
      entry.state = EntryState::kUnreachable;
      entry.deadline = now + kArpUnreachableHold;
      ++generation_;
      return;
    case EntryState::kUnreachable:
      entry.state = EntryState::kFree;
      ++generation_;
      return;
  }
}

void ArpTable::step_known(Entry& entry, Nanos now, ArpOutList& out) {
  const bool is_in_use = entry.used_at != kNeverUsed && now - entry.used_at < kArpReachable;
  if (!is_in_use) {
    entry.state = EntryState::kFree;
    return;
  }
  entry.state = EntryState::kRefreshing;
  entry.tries = 0;
  ask(entry, entry.mac, now, out);
}

void ArpTable::ask(Entry& entry, MacAddress destination, Nanos now, ArpOutList& out) {
  const Port& port = ports_[entry.port];
  if (!out.try_push({entry.port, destination, request_for(port.mac, port.address, entry.ip)})) {
    return;  // the deadline stays where it is: due at the next call
  }
  ++entry.tries;
  entry.deadline = now + kArpRetry;
}

/// RFC 5227 3: an announcement is a request whose sender and target are the same address.
void ArpTable::announce(uint8_t index, Nanos now, ArpOutList& out) {
  Port& port = ports_[index];
  if (!out.try_push(announcement(index))) return;
  --port.announcements_left;
  port.announce_at = port.announcements_left > 0 ? now + kArpAnnounceInterval : kNever;
}

ArpOut ArpTable::announcement(uint8_t port) const {
  const Port& own = ports_[port];
  return {port, kMacBroadcast, request_for(own.mac, own.address, own.address)};
}

bool ArpTable::is_on_link(const Port& port, const IpAddress& ip) {
  if (port.prefix_bits == 0) return true;
  return (ip.as_v4() ^ port.address.as_v4()) >> (32 - port.prefix_bits) == 0;
}

}  // namespace lyre::link
