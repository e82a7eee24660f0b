#include "tests/conformance/scenario.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>

#include "stack/base/check.h"
#include "stack/base/checksum.h"
#include "stack/wire/bytes.h"
#include "stack/wire/icmpv6.h"
#include "stack/wire/ipv4.h"

namespace lyre::conformance {

namespace {

/// An address in the same network.
IpAddress neighbour_of(IpAddress address) {
  ++address.bytes[15];
  return address;
}

StackOptions with_room_for(Family family, StackOptions options) {
  if (family == Family::kIpv6) {
    options.mtu_bytes += wire::kIpv6HeaderBytes - wire::kIpv4HeaderBytesMin;
  }
  return options;
}

/// An IPv4 address is written as a mapped one.
sockaddr_in6 address_of(const IpAddress& address, uint16_t port) {
  sockaddr_in6 out{};
  out.sin6_family = AF_INET6;
  out.sin6_port = htons(port);
  std::copy(address.bytes.begin(), address.bytes.end(), out.sin6_addr.s6_addr);
  return out;
}

std::vector<uint8_t> ip_packet(const wire::AddressPair& addresses, uint8_t protocol, wire::Ecn ecn,
                               const std::vector<uint8_t>& payload) {
  const bool is_v4 = addresses.source.is_v4();
  const size_t header_bytes = is_v4 ? wire::kIpv4HeaderBytesMin : wire::kIpv6HeaderBytes;
  std::vector<uint8_t> out(header_bytes);
  out.insert(out.end(), payload.begin(), payload.end());
  if (is_v4) {
    wire::write_ipv4(
        {.source = addresses.source,
         .destination = addresses.destination,
         .total_bytes = static_cast<uint16_t>(out.size()),
         .protocol = protocol,
         .ecn = ecn},
        wire::ChecksumField::kComputed,
        std::span<uint8_t, wire::kIpv4HeaderBytesMin>(out.data(), wire::kIpv4HeaderBytesMin));
  } else {
    wire::write_ipv6(
        {.source = addresses.source,
         .destination = addresses.destination,
         .payload_bytes = static_cast<uint16_t>(payload.size()),
         .next_header = protocol,
         .ecn = ecn},
        std::span<uint8_t, wire::kIpv6HeaderBytes>(out.data(), wire::kIpv6HeaderBytes));
  }
  return out;
}

/// The fields of a TCP segment that both families share.
struct Carried {
  wire::AddressPair addresses;
  wire::Ecn ecn;
  std::span<const uint8_t> tcp;
};

Carried unpack(std::span<const uint8_t> packet) {
  Drop drop = Drop::kIpTooShort;
  if (packet[0] >> 4 == 4) {
    const auto ip = wire::parse_ipv4(packet, drop);
    LYRE_CHECK(ip.has_value() && ip->protocol == wire::kIpProtocolTcp);
    return {{ip->source, ip->destination}, ip->ecn, packet.subspan(ip->header_bytes)};
  }
  const auto ip = wire::parse_ipv6(packet, drop);
  LYRE_CHECK(ip.has_value() && ip->next_header == wire::kIpProtocolTcp);
  return {{ip->source, ip->destination}, ip->ecn, packet.subspan(wire::kIpv6HeaderBytes)};
}

struct IcmpNumbers {
  uint8_t type;
  uint8_t code;
};

IcmpNumbers icmp_numbers(IcmpSays what) {
  switch (what) {
    case IcmpSays::kTooBig:
      return {wire::kIcmpUnreachable, wire::kUnreachableTooBig};
    case IcmpSays::kNoPort:
      return {wire::kIcmpUnreachable, wire::kUnreachablePort};
    case IcmpSays::kNoProtocol:
      return {wire::kIcmpUnreachable, wire::kUnreachableProtocol};
    case IcmpSays::kProhibited:
      return {wire::kIcmpUnreachable, wire::kUnreachableHostProhibited};
    default:
      return {wire::kIcmpTimeExceeded, 0};
  }
}

IcmpNumbers icmpv6_numbers(IcmpSays what) {
  constexpr uint8_t kTimeExceeded6 = 3;
  switch (what) {
    case IcmpSays::kTooBig:
      return {wire::kIcmpv6TooBig, 0};
    case IcmpSays::kNoPort:
      return {wire::kIcmpv6Unreachable, wire::kUnreachable6Port};
    case IcmpSays::kNoProtocol:
      return {wire::kIcmpv6ParameterProblem, wire::kProblemNextHeader};
    case IcmpSays::kProhibited:
      return {wire::kIcmpv6Unreachable, wire::kUnreachable6Prohibited};
    default:
      return {kTimeExceeded6, 0};
  }
}

}  // namespace

std::string to_string(const Seg& segment) {
  std::string out;
  const std::pair<uint8_t, char> names[] = {{kSyn, 'S'}, {kFin, 'F'}, {kRst, 'R'}, {kPsh, 'P'},
                                            {kAck, '.'}, {kEce, 'E'}, {kCwr, 'W'}};
  for (const auto& [flag, name] : names) {
    if ((segment.flags & flag) != 0) out += name;
  }
  out += " " + std::to_string(segment.seq) + "+" + std::to_string(segment.bytes);
  if ((segment.flags & kAck) != 0) out += " ack " + std::to_string(segment.ack);
  return out;
}

wire::TcpOptions sack(const Blocks& blocks) {
  wire::TcpOptions options;
  for (const auto& [start, end] : blocks) {
    options.sacks[options.sack_count++] = {.start = SeqNum(start), .end = SeqNum(end)};
  }
  return options;
}

Blocks blocks_of(const Seg& segment) {
  Blocks out;
  for (uint8_t i = 0; i < segment.options.sack_count; ++i) {
    const wire::SackBlock& block = segment.options.sacks[i];
    out.emplace_back(block.start.raw(), block.end.raw());
  }
  return out;
}

wire::TcpOptions stamp(uint32_t value, uint32_t echo, wire::TcpOptions beside) {
  beside.has_timestamps = true;
  beside.ts_value = value;
  beside.ts_echo = echo;
  return beside;
}

StackOptions Scenario::with_timestamps() {
  StackOptions options = plain();
  options.connection.timestamps = true;
  return options;
}

StackOptions Scenario::plain() {
  StackOptions options;
  options.mtu_bytes = 1040;
  options.connection.slot_bytes = 1000;
  options.connection.receive_buffer_bytes = 60000;
  options.connection.timestamps = false;
  options.connection.window_scaling = false;
  options.connection.ecn = tcp::EcnMode::kOff;
  options.tso_segments = 1;
  return options;
}

Scenario::Scenario(const StackOptions& options, Family family)
    : own_address(family == Family::kIpv4 ? options.local_v4 : options.local_v6),
      peer_address(neighbour_of(own_address)),
      host(with_room_for(family, options)),
      sockets(host) {}

wire::TcpOptions Scenario::offered(uint16_t mss) {
  wire::TcpOptions out;
  out.mss = mss;
  out.sack_permitted = true;
  return out;
}

std::vector<uint8_t> Scenario::build(const Seg& segment) const {
  wire::TcpHeader header;
  header.source_port = peer_port;
  header.destination_port = own_port;
  header.seq = SeqNum(kPeerIss) + segment.seq;
  header.ack = (segment.flags & kAck) != 0 ? own_iss + segment.ack : SeqNum(0);
  header.flags.bits = segment.flags;
  header.window = segment.window;
  header.options = segment.options;
  for (uint8_t i = 0; i < header.options.sack_count; ++i) {
    header.options.sacks[i].start = own_iss + segment.options.sacks[i].start.raw();
    header.options.sacks[i].end = own_iss + segment.options.sacks[i].end.raw();
  }
  const uint32_t header_bytes = wire::tcp_header_bytes(header);
  std::vector<uint8_t> tcp(header_bytes + segment.bytes);
  for (uint32_t i = 0; i < segment.bytes; ++i) {
    tcp[header_bytes + i] = static_cast<uint8_t>(segment.seq + i);  // the stream is its own index
  }
  const auto sum =
      wire::tcp_pseudo_sum(peer_address, own_address, static_cast<uint32_t>(tcp.size()));
  wire::write_tcp(header, sum, tcp);
  ChecksumSum whole;
  whole.add(tcp);
  wire::write_raw16(tcp.data() + 16, whole.finish());
  return ip_packet({peer_address, own_address}, wire::kIpProtocolTcp, segment.ecn, tcp);
}

void Scenario::send(const Seg& segment) { send_raw(build(segment)); }

void Scenario::send_raw(std::vector<uint8_t> packet) { host.receive(packet); }

void Scenario::send_icmp(IcmpSays what, uint32_t quoted_seq, uint16_t mtu) {
  std::vector<uint8_t> quoted(wire::kTcpHeaderBytesMin);
  wire::write_be16(quoted.data(), own_port);
  wire::write_be16(quoted.data() + 2, peer_port);
  wire::write_be32(quoted.data() + 4, (own_iss + quoted_seq).raw());
  const auto inner =
      ip_packet({own_address, peer_address}, wire::kIpProtocolTcp, wire::Ecn::kNotEct, quoted);
  const bool is_v4 = own_address.is_v4();
  const IcmpNumbers numbers = is_v4 ? icmp_numbers(what) : icmpv6_numbers(what);
  const wire::AddressPair addresses{peer_address, own_address};
  std::vector<uint8_t> icmp(wire::kIcmpHeaderBytes);
  icmp[0] = numbers.type;
  icmp[1] = numbers.code;
  wire::write_be16(icmp.data() + 6, mtu);  // the lower half of ICMPv6's 32 bits
  icmp.insert(icmp.end(), inner.begin(), inner.end());
  if (is_v4) {
    ChecksumSum sum;
    sum.add(icmp);
    wire::write_raw16(icmp.data() + 2, sum.finish());
  } else {
    wire::complete_icmpv6(addresses, icmp);
  }
  const uint8_t protocol = is_v4 ? wire::kIpProtocolIcmp : wire::kIpProtocolIcmpv6;
  send_raw(ip_packet(addresses, protocol, wire::Ecn::kNotEct, icmp));
}

Seg Scenario::parse(const EmittedPacket& packet) {
  Drop drop = Drop::kTcpTooShort;
  const Carried carried = unpack(packet.bytes);
  LYRE_CHECK(carried.addresses.source == own_address);
  LYRE_CHECK(wire::tcp_checksum_ok(own_address, carried.addresses.destination, carried.tcp));
  const auto tcp = wire::parse_tcp(carried.tcp, drop);
  LYRE_CHECK(tcp.has_value());
  const wire::TcpHeader& header = tcp->header;
  if (header.flags.has(kSyn)) own_iss = header.seq;
  Seg out;
  out.flags = header.flags.bits;
  out.seq = header.seq.since(own_iss);
  out.ack = header.flags.has(kAck) ? header.ack.since(SeqNum(kPeerIss)) : 0;
  out.bytes = static_cast<uint32_t>(carried.tcp.size()) - tcp->header_bytes;
  out.window = header.window;
  out.options = header.options;
  for (uint8_t i = 0; i < out.options.sack_count; ++i) {
    auto& block = out.options.sacks[i];
    block = {.start = SeqNum(block.start.since(SeqNum(kPeerIss))),
             .end = SeqNum(block.end.since(SeqNum(kPeerIss)))};
  }
  out.ecn = carried.ecn;
  out.at = packet.at;
  return out;
}

std::optional<Seg> Scenario::next() {
  const auto packet = host.output().take();
  if (!packet) return std::nullopt;
  return parse(*packet);
}

std::vector<Seg> Scenario::all() {
  std::vector<Seg> out;
  while (const auto segment = next()) out.push_back(*segment);
  return out;
}

Seg Scenario::expect(uint8_t flags) {
  const auto segment = next();
  if (!segment) {
    ADD_FAILURE() << "nothing left";
    return {};
  }
  EXPECT_EQ(segment->flags & ~kPsh, flags) << to_string(*segment);
  return *segment;
}

void Scenario::expect_silence() {
  const auto segment = next();
  EXPECT_FALSE(segment.has_value()) << to_string(segment.value_or(Seg{}));
}

Seg Scenario::expect_later(uint8_t flags) {
  for (int i = 0; i < 100 && host.output().is_empty() && host.next_deadline() != kNever; ++i) {
    host.advance_to(host.next_deadline());
  }
  return expect(flags);
}

int Scenario::open() {
  const int fd = next_fd_++;
  LYRE_CHECK(sockets.open(fd, AF_INET6, SOCK_STREAM) == fd);
  return fd;
}

int Scenario::listen(int backlog) {
  listener = open();
  const sockaddr_in6 own = address_of(own_address, kOwnPort);
  LYRE_CHECK(sockets.bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0);
  return sockets.listen(listener, backlog);
}

int Scenario::accept() {
  const int result = sockets.accept(listener, next_fd_++, nullptr, nullptr);
  if (result < 0) return result;
  socket = result;
  conn = sockets.conn_of(socket);
  return result;
}

int Scenario::connect() {
  if (socket < 0) socket = open();
  const sockaddr_in6 peer = address_of(peer_address, peer_port);
  const int result =
      sockets.start_connect(socket, reinterpret_cast<const sockaddr*>(&peer), sizeof peer);
  conn = sockets.conn_of(socket);
  own_port = host.engine().tuple(conn).local.port;
  return result;
}

ssize_t Scenario::write(size_t bytes, int flags) {
  const std::vector<uint8_t> text(bytes, 'x');
  return sockets.send(socket, text, flags);
}

ssize_t Scenario::read(size_t bytes) {
  std::vector<uint8_t> room(bytes);
  return sockets.receive(socket, room, 0);
}

void Scenario::set(int level, int name, int value) {
  EXPECT_EQ(sockets.set_option(socket, level, name, &value, sizeof value), 0);
}

int Scenario::error() {
  int value = 0;
  socklen_t length = sizeof value;
  EXPECT_EQ(sockets.get_option(socket, SOL_SOCKET, SO_ERROR, &value, &length), 0);
  return value;
}

uint64_t Scenario::drops() const {
  uint64_t sum = 0;
  for (size_t i = 0; i < kDropCount; ++i) sum += drops(static_cast<Drop>(i));
  return sum;
}

int Scenario::close() { return sockets.close(socket); }

void Scenario::establish_passive(const wire::TcpOptions& offer, uint16_t window) {
  if (listener < 0) listen();
  send({.flags = kSyn, .window = window, .options = offer});
  expect(kSyn | kAck);
  wait(millis(10));
  Seg ack{.flags = kAck, .seq = 1, .ack = 1, .window = window};
  if (offer.has_timestamps) ack.options = stamp(offer.ts_value + 10);
  send(ack);
  LYRE_CHECK(accept() >= 0);
}

void Scenario::establish_active(const wire::TcpOptions& offer, uint16_t window) {
  connect();
  expect(kSyn);
  wait(millis(10));
  send({.flags = kSyn | kAck, .ack = 1, .window = window, .options = offer});
  expect(kAck);
}

}  // namespace lyre::conformance
