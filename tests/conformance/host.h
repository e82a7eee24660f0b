#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "stack/ip/input.h"
#include "stack/tcp/engine.h"
#include "tests/conformance/listeners.h"
#include "tests/conformance/own_addresses.h"
#include "tests/conformance/packet_output.h"
#include "tests/conformance/payload_store.h"
#include "tests/conformance/stack_options.h"

namespace lyre::conformance {

/// The state of a connection outside the engine: payload in both directions, and its owner.
struct Stream {
  static constexpr int kNoOwner = Listeners::kNone;

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
  /// What the stack sent.
  PacketOutput& output() { return output_; }

  // Operations for the socket calls.
  tcp::ConnId connect(const FourTuple& tuple, const tcp::ConnectionConfig& config, int socket);
  void open_listener(int socket, const Endpoint& local, uint32_t backlog,
                     const tcp::ConnectionConfig& config);
  /// Half-open and unaccepted connections end with the listener.
  void close_listener(int socket);
  Listeners& listeners() { return listeners_; }
  const Listeners& listeners() const { return listeners_; }
  /// The oldest connection that waits to be accepted: it belongs to `socket` from now on.
  std::optional<tcp::ConnId> accept(int listener, int socket);
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
  const tcp::Engine& engine() const { return engine_; }
  const StackOptions& options() const { return options_; }
  /// A port above 32767 that is free towards `remote`.
  uint16_t choose_port(const IpAddress& local, const Endpoint& remote);
  uint64_t drops(Drop reason) const { return drops_[static_cast<size_t>(reason)]; }

 private:
  void on_tcp(const ip::TcpInput& input);
  void on_unmatched(const FourTuple& tuple, const tcp::SegmentIn& segment,
                    std::span<const uint8_t> payload, std::optional<SeqNum> iss_after);
  void on_syn(int listener, const FourTuple& tuple, const tcp::SegmentIn& segment,
              std::optional<SeqNum> iss_after);
  bool try_cookie(int listener, const FourTuple& tuple, const tcp::SegmentIn& ack,
                  std::span<const uint8_t> payload);
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
  tcp::ConnId find(const FourTuple& tuple) const;
  void forget(tcp::ConnId conn);
  void drop(Drop reason) { ++drops_[static_cast<size_t>(reason)]; }

  StackOptions options_;
  OwnAddresses addresses_;
  tcp::Engine engine_;
  Nanos now_ = seconds(1000);
  tcp::Effects effects_;
  std::map<FourTuple, tcp::ConnId> flows_;
  std::map<tcp::ConnId, Stream> streams_;
  Listeners listeners_;
  PayloadStore payloads_;
  PacketOutput output_;
  std::array<uint64_t, kDropCount> drops_{};
  uint16_t next_port_ = 32768;
};

}  // namespace lyre::conformance
