#pragma once

#include <optional>
#include <vector>

#include "stack/tcp/engine.h"

namespace lyre::tcp {

/// A peer that a test controls: it sends segments to the engine and reads the engine's answers.
/// Sequence numbers are relative: them(0) is the peer's first byte of text, us(0) ours.
class Peer {
 public:
  explicit Peer(const ConnectionConfig& config = plain_config(), const EngineConfig& engine = {});

  /// No timestamps, SACK on, MSS 1000, no scaling: numbers stay readable.
  static ConnectionConfig plain_config();

  /// An established connection that we opened; the peer offers `options` and `window`.
  void dial(uint16_t window = 60000);
  /// An established connection that the peer opened.
  void accept(uint16_t window = 60000);
  /// One of the two, to a destination that is known to be reached by so small packets only.
  void open_with_path_mtu(uint32_t mtu_bytes, bool is_dialed);
  /// Only our SYN was sent.
  SegmentOut dial_only();
  /// Our SYN was lost and sent again; the second one is answered.
  void dial_with_lost_syn();

  SegmentIn make(uint8_t flags, uint32_t seq_at, uint32_t ack_at, uint32_t payload_bytes = 0) const;
  const Effects& send(const SegmentIn& segment);
  /// Shorthands for frequent segments.
  const Effects& ack(uint32_t ack_at) { return send(make(wire::TcpFlags::kAck, sent_, ack_at)); }
  const Effects& ack_with_sack(uint32_t ack_at, std::vector<std::pair<uint32_t, uint32_t>> blocks);
  const Effects& text(uint32_t seq_at, uint32_t payload_bytes);
  const Effects& app_send(uint32_t bytes);
  const Effects& release(uint32_t charge_bytes);
  const Effects& shutdown();
  const Effects& close();

  std::optional<SegmentOut> next(uint32_t payload_bytes_max = 0);
  /// All segments that may be sent now.
  std::vector<SegmentOut> all(uint32_t payload_bytes_max = 0);
  /// Lets time pass, and runs timers when they are due.
  void wait(Nanos span);
  /// Advances to the next deadline and runs its timer.
  const Effects& run_deadline();

  SeqNum us(uint32_t at) const { return our_iss + 1 + at; }
  SeqNum them(uint32_t at) const { return their_iss + 1 + at; }
  uint32_t at(SeqNum ours) const { return ours.since(our_iss + 1); }
  uint32_t ack_at(SeqNum theirs) const { return theirs.since(their_iss + 1); }
  ReceiveQueue queue() { return engine.receive_queue(conn); }
  State state() const { return engine.state(conn); }
  ConnectionInfo info() const { return engine.info(conn); }

  ConnectionConfig config;
  Engine engine;
  ConnId conn = kNoConn;
  Nanos now = seconds(100);
  Nanos handshake_rtt = millis(10);
  Effects effects;
  wire::TcpOptions syn_options;  ///< what the peer's SYN offers
  SeqNum our_iss;
  SeqNum their_iss{0xfffffff0u};  ///< wraps soon
  uint16_t window = 60000;
  uint32_t sent_ = 0;  ///< of the peer's text, for plain ACKs
  uint32_t known_mtu_bytes = 0;

 private:
  const Effects& checked();
  void answer_syn();
  uint32_t next_slot_ = 0;
};

inline constexpr uint8_t kA = wire::TcpFlags::kAck;
inline constexpr uint8_t kS = wire::TcpFlags::kSyn;
inline constexpr uint8_t kSA = wire::TcpFlags::kSyn | wire::TcpFlags::kAck;
inline constexpr uint8_t kF = wire::TcpFlags::kFin;
inline constexpr uint8_t kFA = wire::TcpFlags::kFin | wire::TcpFlags::kAck;
inline constexpr uint8_t kR = wire::TcpFlags::kRst;
inline constexpr uint8_t kRA = wire::TcpFlags::kRst | wire::TcpFlags::kAck;

}  // namespace lyre::tcp
