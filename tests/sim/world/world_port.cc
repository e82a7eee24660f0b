#include "tests/sim/world/world_port.h"

#include <algorithm>
#include <cstring>

#include "stack/base/checksum.h"
#include "stack/io/complete_checksums.h"
#include "stack/wire/bytes.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icmp.h"
#include "stack/wire/icmpv6.h"
#include "stack/wire/ipv4.h"

namespace lyre::sim {
namespace {

constexpr size_t kIpAt = io::kEthernetHeaderBytes;
constexpr uint32_t kQuotedTcpBytes = 20;
constexpr IpAddress kRouter = IpAddress::v4(0x0a0900fe);
constexpr IpAddress kRouter6{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe}};

bool has_type(const io::PacketBuf& packet, uint16_t ethernet_type) {
  return packet.length > kIpAt && wire::read_be16(packet.data + 12) == ethernet_type;
}

uint32_t ip_bytes_on_wire(const io::PacketBuf& packet) {
  uint32_t bytes = packet.length;
  for (uint32_t i = 0; i < packet.piece_count; ++i) bytes += packet.pieces[i].length;
  const uint32_t headers = static_cast<uint32_t>(kIpAt) + packet.l3_bytes + packet.l4_bytes;
  if (packet.tso_bytes > 0) bytes = std::min(bytes, headers + packet.tso_bytes);
  return bytes - static_cast<uint32_t>(kIpAt);
}

}  // namespace

size_t WorldPort::rx_burst(std::span<io::PacketBuf*> out) {
  size_t filled = 0;
  while (filled < out.size() && !messages_.empty()) {
    io::PacketBuf* packet = memory_->alloc_rx();
    if (packet != nullptr) {
      std::memcpy(packet->data, messages_.back().data(), messages_.back().size());
      packet->length = static_cast<uint32_t>(messages_.back().size());
      out[filled++] = packet;
    }
    messages_.pop_back();
  }
  return filled + inner_.rx_burst(out.subspan(filled));
}

size_t WorldPort::tx_burst(std::span<io::PacketBuf* const> in) {
  size_t taken = 0;
  for (io::PacketBuf* packet : in) {
    if (!fits(*packet)) {
      ++too_big_count_;
      if (!is_silent_) complain(*packet);
      memory_->release({&packet, 1});
    } else {
      // Only packets that the wire takes are part of the trace. They are hashed before, because a
      // taken packet must not be accessed.
      const uint64_t before = trace_hash_;
      trace(*packet);
      if (inner_.tx_burst({&packet, 1}) == 0) {
        trace_hash_ = before;
        return taken;
      }
    }
    ++taken;
  }
  return taken;
}

bool WorldPort::fits(const io::PacketBuf& packet) const {
  if (path_mtu_bytes_ == 0) return true;
  if (has_type(packet, wire::kEtherTypeIpv4)) return ip_bytes_on_wire(packet) <= path_mtu_bytes_;
  return !has_type(packet, wire::kEtherTypeIpv6) || ip_bytes_on_wire(packet) <= path_mtu6_bytes();
}

uint32_t WorldPort::path_mtu6_bytes() const {
  return std::max(path_mtu_bytes_, wire::kIpv6MtuBytesMin);
}

void WorldPort::complain(const io::PacketBuf& packet) {
  const bool is_ipv6 = has_type(packet, wire::kEtherTypeIpv6);
  const size_t ip_bytes = is_ipv6 ? wire::kIpv6HeaderBytes : wire::kIpv4HeaderBytesMin;
  const std::span quoted = std::span(packet.data, packet.length).subspan(kIpAt);
  const size_t quoted_bytes = std::min(ip_bytes + kQuotedTcpBytes, quoted.size());
  std::vector<uint8_t> frame(kIpAt + ip_bytes + wire::kIcmpHeaderBytes + quoted_bytes);
  std::memcpy(frame.data(), packet.data + 6, 6);
  std::memcpy(frame.data() + 6, packet.data, 6);
  std::memcpy(frame.data() + 12, packet.data + 12, 2);
  const std::span ip = std::span(frame).subspan(kIpAt, ip_bytes);
  const std::span icmp = std::span(frame).subspan(kIpAt + ip_bytes);
  std::copy_n(quoted.begin(), quoted_bytes, icmp.begin() + wire::kIcmpHeaderBytes);
  if (is_ipv6) {
    write_too_big6(quoted, ip.first<wire::kIpv6HeaderBytes>(), icmp);
  } else {
    write_too_big(quoted, ip.first<wire::kIpv4HeaderBytesMin>(), icmp);
  }
  messages_.push_back(std::move(frame));
}

/// RFC 1191 4: destination unreachable, fragmentation needed, with the next hop's MTU.
void WorldPort::write_too_big(std::span<const uint8_t> quoted,
                              std::span<uint8_t, wire::kIpv4HeaderBytesMin> ip,
                              std::span<uint8_t> icmp) const {
  wire::write_ipv4({.source = kRouter,
                    .destination = IpAddress::v4(wire::read_be32(quoted.data() + 12)),
                    .total_bytes = static_cast<uint16_t>(ip.size() + icmp.size()),
                    .id = 0,
                    .protocol = wire::kIpProtocolIcmp},
                   wire::ChecksumField::kComputed, ip);
  icmp[0] = wire::kIcmpUnreachable;
  icmp[1] = wire::kUnreachableTooBig;
  wire::write_be16(icmp.data() + 6, static_cast<uint16_t>(path_mtu_bytes_));
  ChecksumSum sum;
  sum.add(icmp);
  wire::write_raw16(icmp.data() + 2, sum.finish());
}

/// RFC 4443 3.2: packet too big.
void WorldPort::write_too_big6(std::span<const uint8_t> quoted,
                               std::span<uint8_t, wire::kIpv6HeaderBytes> ip,
                               std::span<uint8_t> icmp) const {
  IpAddress sender;
  std::copy_n(quoted.begin() + 8, sender.bytes.size(), sender.bytes.begin());
  wire::write_ipv6({.source = kRouter6,
                    .destination = sender,
                    .payload_bytes = static_cast<uint16_t>(icmp.size()),
                    .next_header = wire::kIpProtocolIcmpv6},
                   ip);
  icmp[0] = wire::kIcmpv6TooBig;
  wire::write_be32(icmp.data() + 4, path_mtu6_bytes());
  wire::complete_icmpv6({kRouter6, sender}, icmp);
}

void WorldPort::trace(const io::PacketBuf& packet) {
  const auto mix = [this](uint64_t value) {
    trace_hash_ = (trace_hash_ ^ value) * 0x100000001b3u;
    trace_hash_ ^= trace_hash_ >> 29;
  };
  mix(static_cast<uint64_t>(now_.value));
  for (uint32_t at = 0; at < packet.length; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, packet.data + at, std::min<size_t>(8, packet.length - at));
    mix(word);
  }
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    mix(packet.pieces[i].offset ^ uint64_t{packet.pieces[i].length} << 40);
  }
}

}  // namespace lyre::sim
