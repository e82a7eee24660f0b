#include "tests/sim/world/world_port.h"

#include <algorithm>
#include <cstring>

#include "stack/base/checksum.h"
#include "stack/io/complete_checksums.h"
#include "stack/wire/bytes.h"
#include "stack/wire/icmp.h"
#include "stack/wire/ipv4.h"

namespace lyre::sim {
namespace {

constexpr size_t kIpAt = io::kEthernetHeaderBytes;
constexpr uint32_t kQuotedBytes = 20 + 20;
constexpr uint32_t kRouterAddress = 0x0a0900fe;

bool is_ipv4_frame(const io::PacketBuf& packet) {
  return packet.length >= kIpAt + 20 && packet.data[12] == 8 && packet.data[13] == 0;
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
    io::PacketBuf* packet = memory_.alloc_rx();
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
      memory_.release({&packet, 1});
    } else {
      // Only what the wire takes is part of the trace; a packet it took is no longer ours to read.
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
  return path_mtu_bytes_ == 0 || !is_ipv4_frame(packet) ||
         ip_bytes_on_wire(packet) <= path_mtu_bytes_;
}

/// RFC 1191 4: destination unreachable, fragmentation needed, with the next hop's MTU.
void WorldPort::complain(const io::PacketBuf& packet) {
  std::vector<uint8_t> frame(kIpAt + 20 + wire::kIcmpHeaderBytes + kQuotedBytes);
  std::memcpy(frame.data(), packet.data + 6, 6);
  std::memcpy(frame.data() + 6, packet.data, 6);
  frame[12] = 8;
  const uint8_t* quoted = packet.data + kIpAt;
  wire::write_ipv4({.source = IpAddress::v4(kRouterAddress),
                    .destination = IpAddress::v4(wire::read_be32(quoted + 12)),
                    .total_bytes = static_cast<uint16_t>(frame.size() - kIpAt),
                    .id = 0,
                    .protocol = wire::kIpProtocolIcmp},
                   wire::ChecksumField::kComputed,
                   std::span<uint8_t, 20>(frame.data() + kIpAt, 20));
  uint8_t* icmp = frame.data() + kIpAt + 20;
  icmp[0] = wire::kIcmpUnreachable;
  icmp[1] = wire::kUnreachableTooBig;
  wire::write_be16(icmp + 6, static_cast<uint16_t>(path_mtu_bytes_));
  std::memcpy(icmp + wire::kIcmpHeaderBytes, quoted,
              std::min<size_t>(kQuotedBytes, packet.length - kIpAt));
  ChecksumSum sum;
  sum.add({icmp, frame.size() - kIpAt - 20});
  wire::write_raw16(icmp + 2, sum.finish());
  messages_.push_back(std::move(frame));
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
