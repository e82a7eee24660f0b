#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "stack/base/check.h"
#include "stack/ip/output.h"
#include "stack/wire/bytes.h"
#include "tests/unit/stack/ip/frame_builder.h"
#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {

/// The parts of a worker with a client whose session the peer has accepted, and the frames of that
/// peer. The peer has no TCP options, so its segments are what their numbers say.
class ConnectedParts : public WorkerParts {
 protected:
  using Frame = std::vector<uint8_t>;
  static constexpr uint32_t kPeerIss = 1000;

  explicit ConnectedParts(const io::sim::LinkOptions& options = {}) : WorkerParts(options) {
    attach();
    learn_peer();
    conn = connect();
  }

  /// A session that is established, and its index.
  uint32_t connect() {
    const uint32_t opened = open();
    transmission.transmit();
    const std::vector<Frame> sent = take_frames();
    LYRE_CHECK(!sent.empty());
    own_iss_.at(opened) = SeqNum(wire::read_be32(sent.back().data() + kSeqAt));
    ip::TcpOutput answer = segment(opened, 0, 0);
    answer.header.seq = SeqNum(kPeerIss);
    answer.header.flags.set(wire::TcpFlags::kSyn);
    answer.header.options.mss = peer_mss;
    receive(ip::tcp_frame(answer));
    LYRE_CHECK(state.engine.state(opened) == tcp::State::kEstablished);
    return opened;
  }
  /// The peer's segment with so much text, `offset` bytes into what it sends.
  ip::TcpOutput segment(uint32_t to, uint32_t offset, uint32_t bytes) const {
    ip::TcpOutput out;
    const FourTuple& tuple = state.engine.tuple(to);
    out.frame = {.source = kPeerMac, .destination = state.ports[0].mac()};
    out.tuple = {.local = tuple.remote, .remote = tuple.local};
    out.header.seq = SeqNum(kPeerIss + 1 + offset);
    out.header.ack = own_iss_.at(to) + 1;
    out.header.flags.set(wire::TcpFlags::kAck);
    out.header.window = 60'000;
    out.payload_bytes = bytes;
    return out;
  }
  /// A packet of the receive pool that holds the frame.
  io::PacketBuf* packet_of(const Frame& frame) {
    io::PacketBuf* packet = memory.alloc_rx();
    LYRE_CHECK(packet != nullptr && frame.size() <= packet->tailroom);
    std::copy(frame.begin(), frame.end(), packet->data);
    packet->length = static_cast<uint32_t>(frame.size());
    packet->tailroom = static_cast<uint16_t>(packet->tailroom - frame.size());
    return packet;
  }
  void receive(const Frame& frame) {
    input.on_packet(packet_of(frame), ip::Origin::kWire, Redirect::kNo);
    segment_input.deliver_merged();
  }
  void receive_text(uint32_t offset, uint32_t bytes) {
    receive(ip::tcp_frame(segment(conn, offset, bytes)));
  }

  uint32_t conn = UINT32_MAX;
  std::optional<uint16_t> peer_mss;  ///< of sessions that are opened from now on

 private:
  static constexpr size_t kSeqAt = 14 + 20 + 4;  ///< of an Ethernet frame with IPv4 and TCP
  std::array<SeqNum, kConnectionsMax> own_iss_;  ///< by connection
};

}  // namespace lyre::worker
