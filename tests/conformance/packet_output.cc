#include "tests/conformance/packet_output.h"

#include <algorithm>
#include <utility>

#include "stack/io/complete_checksums.h"
#include "stack/ip/output.h"

namespace lyre::conformance {
namespace {

constexpr uint32_t kFrameBytesMax = 65536 + 256;
constexpr link::FrameAddresses kAddresses{.source = kOwnMac, .destination = kPeerMac};

/// An empty transmit buffer.
struct OutputBuffer {
  explicit OutputBuffer(uint16_t headroom) : memory(kFrameBytesMax) {
    packet.headroom = headroom;
    packet.data = memory.data() + headroom;
    packet.tailroom = UINT16_MAX;
  }
  std::vector<uint8_t> ip_packet() const {
    const auto bytes = packet.bytes().subspan(wire::kEthernetHeaderBytes);
    return {bytes.begin(), bytes.end()};
  }
  std::vector<uint8_t> memory;
  io::PacketBuf packet;
};

}  // namespace

void PacketOutput::emit(const FourTuple& tuple, const tcp::SegmentOut& segment,
                        std::span<const uint8_t> payload, Nanos now) {
  OutputBuffer buffer(256);
  io::PacketBuf& packet = buffer.packet;
  packet.length = static_cast<uint32_t>(payload.size());
  std::copy(payload.begin(), payload.end(), packet.data);
  ip::TcpOutput out;
  out.frame = kAddresses;
  out.tuple = tuple;
  out.header.seq = segment.seq;
  out.header.ack = segment.ack;
  out.header.flags = segment.flags;
  out.header.window = segment.window;
  out.header.options = segment.options;
  out.payload_bytes = segment.payload_bytes;
  out.ip_id = ++ip_id_;
  out.ecn = segment.ecn;
  ip::write_tcp_packet(packet, out);
  io::complete_ip_checksum(packet);
  io::complete_tcp_checksum(packet, [](const BufRef&) { return std::span<const uint8_t>(); });
  packets_.push_back({buffer.ip_packet(), now});
}

void PacketOutput::emit_cut(const FourTuple& tuple, const tcp::SegmentOut& large,
                            std::span<const uint8_t> queue, Nanos now) {
  using wire::TcpFlags;
  uint32_t done = 0;
  do {
    tcp::SegmentOut piece = large;
    piece.seq = large.seq + done;
    piece.payload_bytes = std::min<uint32_t>(large.payload_bytes - done, large.mss_bytes);
    const auto payload = piece.payload_bytes == 0
                             ? std::span<const uint8_t>()
                             : queue.subspan(large.queue_offset + done, piece.payload_bytes);
    if (done > 0) piece.flags.bits &= static_cast<uint8_t>(~TcpFlags::kCwr);
    done += piece.payload_bytes;
    const bool is_last = done == large.payload_bytes;
    if (!is_last) piece.flags.bits &= static_cast<uint8_t>(~(TcpFlags::kFin | TcpFlags::kPsh));
    emit(tuple, piece, payload, now);
  } while (done < large.payload_bytes);
}

std::optional<Drop> PacketOutput::reply(const ip::EchoInput& echo, Nanos now) {
  OutputBuffer buffer(128);
  if (const auto refused = echo_.write_reply(echo, kAddresses, ++ip_id_, now, buffer.packet)) {
    return refused;
  }
  packets_.push_back({buffer.ip_packet(), now});
  return std::nullopt;
}

void PacketOutput::report(const ip::Refused& refused, Nanos now) {
  OutputBuffer buffer(128);
  if (echo_.write_problem(refused, kAddresses, now, buffer.packet)) return;
  packets_.push_back({buffer.ip_packet(), now});
}

std::optional<EmittedPacket> PacketOutput::take() {
  if (packets_.empty()) return std::nullopt;
  EmittedPacket packet = std::move(packets_.front());
  packets_.pop_front();
  return packet;
}

}  // namespace lyre::conformance
