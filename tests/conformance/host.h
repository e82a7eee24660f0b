#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "stack/io/packet.h"
#include "stack/ip/echo_responder.h"
#include "stack/ip/input.h"
#include "stack/ip/route_table.h"
#include "stack/tcp/engine.h"
#include "tests/conformance/stack_options.h"

namespace lyre::conformance {

/// One IP packet that the stack sent, and the time.
struct EmittedPacket {
  std::vector<uint8_t> bytes;
  Nanos at;
};

/// The state of a connection outside the engine: payload in both directions, and its owner.
struct Stream {
  static constexpr int kNoOwner = -1;

  int socket = kNoOwner;    ///< kNoOwner: not accepted yet, or an orphan
  int listener = kNoOwner;  ///< passive, until accepted
  std::vector<uint8_t> unacked;
  std::deque<uint8_t> readable;  ///< taken from the engine, not read yet
  uint32_t readable_charge_bytes = 0;
  uint64_t read_bytes = 0;
  uint32_t chunk_bytes = 0;                ///< of the chunk that is being filled
  uint32_t unsent_low_bytes = UINT32_MAX;  ///< TCP_NOTSENT_LOWAT
  tcp::EndReason reason = tcp::EndReason::kNone;
  bool is_established = false;
  bool has_peer_finished = false;
  bool is_over = false;
};

/// A host made of the real engine and IP input on a virtual clock, without threads: a daemon's
/// worker without ports and clients. Packets are bare IP. The socket calls are in sockets.h.
class Host {
 public:
  explicit Host(const StackOptions& options);

  Nanos now() const { return now_; }
  /// Runs every timer up to `at`.
  void advance_to(Nanos at);
  /// kNever when no timer is armed.
  Nanos next_deadline() const;

  /// Handles one IP packet from the wire.
  void receive(std::span<const uint8_t> packet);
  std::optional<EmittedPacket> take_emitted();
  bool has_emitted() const { return !emitted_.empty(); }

  // Operations for the socket calls.
  tcp::ConnId connect(const FourTuple& tuple, const tcp::ConnectionConfig& config, int socket);
  bool open_listener(int socket, const Endpoint& local, uint32_t backlog,
                     const tcp::ConnectionConfig& config);
  void configure_listener(int socket, const tcp::ConnectionConfig& config);
  void close_listener(int socket);
  /// The oldest connection that waits to be accepted.
  std::optional<tcp::ConnId> accept(int listener);
  bool has_acceptable(int listener) const;
  uint32_t send(tcp::ConnId conn, std::span<const uint8_t> bytes, bool has_more);
  void set_unsent_low(tcp::ConnId conn, uint32_t bytes) {
    streams_.at(conn).unsent_low_bytes = bytes;
  }
  uint32_t receive_into(tcp::ConnId conn, std::span<uint8_t> out, bool is_peek);
  uint32_t readable_bytes(tcp::ConnId conn) const;
  void shutdown(tcp::ConnId conn);
  void close(tcp::ConnId conn);
  void abort(tcp::ConnId conn);
  void configure(tcp::ConnId conn, const tcp::ConnectionConfig& config);

  const Stream& stream(tcp::ConnId conn) const { return streams_.at(conn); }
  void set_owner(tcp::ConnId conn, int socket) { streams_.at(conn).socket = socket; }
  const tcp::Engine& engine() const { return engine_; }
  const StackOptions& options() const { return options_; }
  /// A port above 32767 that is free towards `remote`.
  uint16_t choose_port(const IpAddress& local, const Endpoint& remote);
  bool is_port_bound(const Endpoint& local) const;
  /// `wanted` with the MSS that fits a packet to `peer`.
  tcp::ConnectionConfig config_for(const tcp::ConnectionConfig& wanted,
                                   const IpAddress& peer) const;
  uint64_t drops(Drop reason) const { return drops_[static_cast<size_t>(reason)]; }

 private:
  struct Listener {
    Endpoint local;
    uint32_t backlog = 0;
    tcp::ConnectionConfig config;
    uint32_t embryonic = 0;
    std::deque<tcp::ConnId> acceptable;
  };

  void learn_address(std::span<const uint8_t> packet);
  void on_tcp(const ip::TcpInput& input);
  void on_unmatched(const FourTuple& tuple, const tcp::SegmentIn& segment,
                    std::span<const uint8_t> payload, std::optional<SeqNum> iss_after);
  void on_syn(int listener, const FourTuple& tuple, const tcp::SegmentIn& segment,
              std::optional<SeqNum> iss_after);
  bool try_cookie(int listener, const FourTuple& tuple, const tcp::SegmentIn& ack,
                  std::span<const uint8_t> payload);
  tcp::SegmentIn segment_of(const ip::TcpInput& input);
  void on_echo(const ip::EchoInput& echo);
  void on_refused(const ip::Refused& refused);
  void on_icmp_error(const ip::IcmpError& error);
  void deliver(tcp::ConnId conn, const tcp::SegmentIn& segment, std::span<const uint8_t> payload);
  void apply(tcp::ConnId conn);
  void end(tcp::ConnId conn);
  void on_established(tcp::ConnId conn);
  void leave_listener(tcp::ConnId conn);
  uint32_t chunk_room_bytes(tcp::ConnId conn);
  void append(tcp::ConnId conn, uint32_t bytes, bool has_more);
  void pull(tcp::ConnId conn);
  void transmit(tcp::ConnId conn);
  uint32_t tso_bytes(tcp::ConnId conn) const;
  void emit_cut(tcp::ConnId conn, const tcp::SegmentOut& large);
  void emit(const FourTuple& tuple, const tcp::SegmentOut& segment,
            std::span<const uint8_t> payload);
  int find_listener(const Endpoint& local) const;
  tcp::ConnId find(const FourTuple& tuple) const;
  void forget(tcp::ConnId conn);
  uint32_t keep(std::span<const uint8_t> payload);
  void drop(Drop reason) { ++drops_[static_cast<size_t>(reason)]; }

  StackOptions options_;
  ip::RouteTable routes_;
  tcp::Engine engine_;
  Nanos now_ = seconds(1000);
  tcp::Effects effects_;
  std::map<FourTuple, tcp::ConnId> flows_;
  std::map<tcp::ConnId, Stream> streams_;
  std::map<int, Listener> listeners_;
  std::map<uint32_t, std::vector<uint8_t>> payloads_;
  uint32_t next_payload_ = 0;
  std::deque<EmittedPacket> emitted_;
  std::array<uint64_t, kDropCount> drops_{};
  ip::EchoResponder echo_;
  uint16_t next_port_ = 32768;
  uint16_t ip_id_ = 0;
};

}  // namespace lyre::conformance
