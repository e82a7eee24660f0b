#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/two_workers.h"
#include "tests/unit/stack/ip/frame_builder.h"

namespace lyre::test {

/// A peer whose frames are made by hand, on a connection that two workers opened: the frames of the
/// left one are dropped, and this object sends in its place to the right one, which runs only for
/// the frames that it is given.
class HandMadePeer {
 public:
  using Frame = std::vector<uint8_t>;
  static constexpr uint16_t kListeningPort = 5000;
  static constexpr uint32_t kTextBytes = 100;

  explicit HandMadePeer(bool over_ipv6)
      : is_ipv6(over_ipv6), hosts_({}, with_both(kLeft4, kLeft6), with_both(kRight4, kRight6)) {
    LYRE_CHECK(hosts_.connect(kListeningPort, over_ipv6 ? kRight6 : kRight4));
    hosts_.run_for(millis(500));
    text = steal_text(*hosts_.app_a, hosts_.a, 1);
    flown = steal_text(*hosts_.app_b, hosts_.b, 0);
  }

  /// What of it is carried by Ethernet, sums put right.
  Frame ip_frame(uint8_t protocol, std::span<const uint8_t> payload) const {
    const IpAddress& from = text.tuple.local.address;
    const IpAddress& to = text.tuple.remote.address;
    Frame frame = is_ipv6 ? ip::ipv6_frame(protocol, payload, {from, to})
                          : ip::ip_frame(protocol, payload, from, to);
    wire::write_ethernet({text.frame.destination, text.frame.source,
                          is_ipv6 ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4},
                         std::span(frame).first<wire::kEthernetHeaderBytes>());
    return frame;
  }
  /// The text, sent as what the connection expects next, but for one byte of its TCP header.
  Frame text_with_tcp_byte(size_t at, uint8_t value) const {
    Frame segment = tcp_bytes(text);
    segment[at] = value;
    return ip_frame(wire::kIpProtocolTcp, summed(std::move(segment)));
  }
  Frame text_with_option_bytes(uint8_t kind, uint8_t length) const {
    Frame segment = tcp_bytes(text);
    segment[wire::kTcpHeaderBytesMin] = kind;
    segment[wire::kTcpHeaderBytesMin + 1] = length;
    return ip_frame(wire::kIpProtocolTcp, summed(std::move(segment)));
  }
  /// The text with one byte of its IP header changed, and the sum of that put right.
  Frame text_with_ip_byte(size_t at, uint8_t value) const {
    Frame frame = ip::tcp_frame(text);
    uint8_t* header = frame.data() + wire::kEthernetHeaderBytes;
    header[at] = value;
    if (is_ipv6) return frame;
    wire::write_raw16(header + 10, 0);
    ChecksumSum sum;
    sum.add({header, wire::kIpv4HeaderBytesMin});
    wire::write_raw16(header + 10, sum.finish());
    return frame;
  }
  /// A segment without text, `ahead` of what the connection expects.
  Frame bare(uint8_t flags, uint32_t ahead = 0) const {
    ip::TcpOutput out = text;
    out.payload_bytes = 0;
    out.header.flags.bits = flags;
    out.header.seq += ahead;
    return ip::tcp_frame(out);
  }
  /// One that belongs to no connection.
  Frame foreign(uint8_t flags, uint16_t to_port = kListeningPort,
                const wire::TcpOptions& options = {}) const {
    ip::TcpOutput out = text;
    out.payload_bytes = 0;
    out.header.flags.bits = flags;
    out.header.options = options;
    out.tuple.local.port = 7777;
    out.tuple.remote.port = to_port;
    return ip::tcp_frame(out);
  }
  /// An ICMP message of the peer's family.
  Frame icmp(uint8_t type, uint8_t code, uint32_t rest, std::span<const uint8_t> body) const {
    if (!is_ipv6) {
      return ip_frame(wire::kIpProtocolIcmp, ip::icmp_message(type, code, rest, body));
    }
    const ip::Ipv6Route route{text.tuple.local.address, text.tuple.remote.address};
    return ip_frame(wire::kIpProtocolIcmpv6, ip::icmpv6_message(type, code, rest, body, route));
  }
  Frame quote(const FourTuple& tuple, SeqNum seq) const {
    return is_ipv6 ? ip::quoted_segment6(tuple, seq) : ip::quoted_segment(tuple, seq);
  }
  Frame quote_of_flown() const { return quote(flown.tuple, flown.header.seq); }
  Frame tcp_bytes(const ip::TcpOutput& out) const {
    const Frame frame = ip::tcp_frame(out);
    const uint32_t front =
        wire::kEthernetHeaderBytes + (is_ipv6 ? wire::kIpv6HeaderBytes : wire::kIpv4HeaderBytesMin);
    return {frame.begin() + front, frame.end()};
  }

  /// Gives the right worker `frame` and a turn. Returns what it answered, in words.
  std::string give(const Frame& frame) {
    io::PacketBuf* packet = nullptr;
    LYRE_CHECK(hosts_.a.memory().alloc_tx(std::span(&packet, 1)) == 1);
    LYRE_CHECK(frame.size() <= packet->tailroom);
    std::copy(frame.begin(), frame.end(), packet->data);
    packet->length = static_cast<uint32_t>(frame.size());
    LYRE_CHECK(hosts_.link.queue(0, 0).tx_burst(std::span(&packet, 1)) == 1);
    hosts_.link.advance(hosts_.now);
    hosts_.b.worker().poll_once(hosts_.now);
    hosts_.link.advance(hosts_.now);
    std::string answers;
    for (Frame got = steal(0); !got.empty(); got = steal(0)) answers += describe(got);
    return answers;
  }
  /// The MSS of a connection that the right worker opens to the same address now.
  uint32_t mss_of_another_connection() {
    hosts_.client_a->listen(6000, 1);
    hosts_.run_for(millis(1));
    hosts_.client_b->connect({text.tuple.local.address, 6000}, 2);
    LYRE_CHECK(hosts_.run_until([&] { return hosts_.app_b->stream_count() == 2; }));
    hosts_.run_for(millis(200));
    channel::SessionView view{};
    LYRE_CHECK(hosts_.b.row(hosts_.app_b->streams().rbegin()->first).read(view));
    return view.mss_bytes;
  }
  /// What was dropped so far, by reason: "tcp_bad_ack 1 ".
  std::string drops() const {
    std::string out;
    for (size_t i = 0; i < kDropCount; ++i) {
      const uint64_t count = hosts_.b.drops(static_cast<Drop>(i)) - drops_before_[i];
      if (count > 0) out += std::string(kDropTexts[i].key) + " " + std::to_string(count) + " ";
    }
    return out;
  }
  TwoWorkers& hosts() { return hosts_; }
  void forget_drops() {
    for (size_t i = 0; i < kDropCount; ++i) {
      drops_before_[i] = hosts_.b.drops(static_cast<Drop>(i));
    }
  }

  const bool is_ipv6;
  ip::TcpOutput text;   ///< what the connection expects next, with kTextBytes behind it
  ip::TcpOutput flown;  ///< what it sent and has no ACK of

 private:
  static constexpr IpAddress kLeft4 = IpAddress::v4(0x0a090001);
  static constexpr IpAddress kRight4 = IpAddress::v4(0x0a090002);
  static constexpr IpAddress kLeft6{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  static constexpr IpAddress kRight6{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

  static HostOptions with_both(const IpAddress& v4, const IpAddress& v6) {
    HostOptions out;
    out.addresses = {InterfaceAddress::of(v4, 24), {v6, 64}};
    out.connection.window_scaling = false;  // what a header says of the window is all of it
    return out;
  }
  static Frame summed(Frame segment, const IpAddress& from, const IpAddress& to) {
    wire::write_raw16(segment.data() + 16,
                      wire::tcp_pseudo_sum(from, to, static_cast<uint32_t>(segment.size())));
    ChecksumSum sum;
    sum.add(segment);
    wire::write_raw16(segment.data() + 16, sum.finish());
    return segment;
  }
  Frame summed(Frame segment) const {
    return summed(std::move(segment), text.tuple.local.address, text.tuple.remote.address);
  }
  /// The next frame that has arrived at that end; empty when there is none.
  Frame steal(int end) {
    io::PacketBuf* packet = nullptr;
    if (hosts_.link.queue(end, 0).rx_burst(std::span(&packet, 1)) == 0) return {};
    Frame out(packet->data, packet->data + packet->length);
    (end == 0 ? hosts_.a : hosts_.b).memory().release(std::span(&packet, 1));
    return out;
  }
  ip::TcpOutput steal_text(PatternApp& app, WorkerHost& host, int end) {
    app.send_pattern(app.only().name, 0, kTextBytes, kTextBytes);
    Frame frame;
    for (int turn = 0; turn < 1000 && frame.size() < kTextBytes; ++turn) {
      hosts_.now += micros(1);
      host.worker().poll_once(hosts_.now);
      hosts_.link.advance(hosts_.now);
      frame = steal(end);
    }
    LYRE_CHECK(frame.size() > kTextBytes);
    return parse(frame);
  }
  ip::TcpOutput parse(const Frame& frame) const {
    Drop drop{};
    const std::span<const uint8_t> packet = std::span(frame).subspan(wire::kEthernetHeaderBytes);
    const auto ethernet = wire::parse_ethernet(frame, drop);
    ip::TcpOutput out;
    out.frame = {ethernet->source, ethernet->destination};
    const auto v4 = wire::parse_ipv4(packet, drop);
    const auto v6 = wire::parse_ipv6(packet, drop);
    out.tuple.local.address = is_ipv6 ? v6->source : v4->source;
    out.tuple.remote.address = is_ipv6 ? v6->destination : v4->destination;
    const auto tcp = wire::parse_tcp(
        packet.subspan(is_ipv6 ? wire::kIpv6HeaderBytes : wire::kIpv4HeaderBytesMin), drop);
    out.header = tcp->header;
    out.tuple.local.port = tcp->header.source_port;
    out.tuple.remote.port = tcp->header.destination_port;
    out.payload_bytes = kTextBytes;
    return out;
  }
  std::string describe(const Frame& frame) const {
    const bool is_ip6 = frame[12] == 0x86;
    const uint8_t protocol = frame[wire::kEthernetHeaderBytes + (is_ip6 ? 6 : 9)];
    if (protocol != wire::kIpProtocolTcp) return "ICMP ";
    const uint8_t flags = parse(frame).header.flags.bits;
    using wire::TcpFlags;
    std::string out;
    if ((flags & TcpFlags::kSyn) != 0) out += "SYN ";
    if ((flags & TcpFlags::kRst) != 0) out += "RST ";
    if ((flags & TcpFlags::kAck) != 0) out += "ACK ";
    return out;
  }

  TwoWorkers hosts_;
  std::array<uint64_t, kDropCount> drops_before_{};
};

}  // namespace lyre::test
