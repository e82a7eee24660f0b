#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stack/tcp/engine.h"
#include "tests/sim/sim_link.h"

namespace lyre::sim {

/// How an application ends its side of the connection.
enum class Ending : uint8_t {
  kShutdownWhenSent,   ///< half close, then reads until the end
  kShutdownWhenHeard,  ///< half close after the peer's end
  kCloseWhenHeard,     ///< close once the peer has ended and all is sent
  kAbortWhenSent,
  kNever,
};

/// The behaviour of an application on its connection.
struct AppPlan {
  uint64_t send_bytes = 0;
  uint32_t chunk_bytes = 65536;  ///< appended at once
  Nanos chunk_pause{0};          ///< between two chunks
  Ending ending = Ending::kShutdownWhenSent;
  uint32_t read_bytes_a_step = UINT32_MAX;  ///< a slow application reads this many ...
  Nanos read_pause{0};                      ///< ... at this interval
};

/// One application, its progress and its result.
struct App {
  AppPlan plan;
  uint64_t send_seed = 0;
  uint64_t receive_seed = 0;
  uint64_t appended_bytes = 0;
  uint64_t acked_bytes = 0;
  uint64_t read_bytes = 0;
  uint8_t offered_scale = 0;               ///< of our window, in our SYN
  std::optional<SeqNum> told_window_edge;  ///< the right edge of our window, as the peer knows it
  bool is_established = false;
  bool has_peer_finished = false;
  bool has_ended = false;  ///< our side has ended as its plan says
  bool is_over = false;
  tcp::EndReason reason = tcp::EndReason::kNone;
  Nanos read_at{0};
  Nanos append_at{0};
  Nanos all_acked_at = kNever;
  tcp::ConnectionInfo last_info;
};

struct HostConfig {
  tcp::EngineConfig engine{
      .connections_max = 64, .sent_records_max = 512, .received_runs_max = 2048};
  tcp::ConnectionConfig connection;
  AppPlan app;
  bool listens = false;
  uint32_t tso_bytes = 0;        ///< maximum payload per poll; 0: one segment
  uint32_t charge_bytes = 2048;  ///< of every packet
  bool prints_packets = false;   ///< one line a packet sent, on stdout
};

/// Byte `at` of the stream with this seed. Both ends compute it, so every byte that is read is
/// checked.
uint8_t pattern_byte(uint64_t seed, uint64_t at);

/// One host: an engine, and a small application on each of its connections.
class SimHost {
 public:
  SimHost(const HostConfig& config, IpAddress address, uint64_t seed, uint64_t name);

  void connect(const Endpoint& remote, uint16_t local_port, uint64_t stream_seed, Nanos now);
  void on_packet(Packet packet, Nanos now, SimLink& out);
  /// Runs timers and applications that are due, then sends what the engine allows.
  void run(Nanos now, SimLink& out);
  Nanos next_deadline() const;

  /// Copies the engine into a new one, which replaces it.
  void replace_engine();
  void check() const;
  bool is_done() const;

  const std::vector<App>& apps() const { return apps_; }
  uint64_t trace_hash() const { return trace_hash_; }
  uint32_t held_payload_count() const;
  const std::string& failure() const { return failure_; }

 private:
  tcp::ConnId find(const FourTuple& tuple) const;
  uint32_t add_app(tcp::ConnId conn, const FourTuple& tuple, uint64_t stream_seed, bool is_dialer);
  void refuse(const Packet& packet, Nanos now, SimLink& out);
  void apply(tcp::ConnId conn, const tcp::Effects& effects, Nanos now);
  void step_app(tcp::ConnId conn, Nanos now);
  void read(tcp::ConnId conn, App& app, Nanos now);
  void write(tcp::ConnId conn, App& app, Nanos now);
  void end(tcp::ConnId conn, App& app, Nanos now);
  void transmit(tcp::ConnId conn, Nanos now, SimLink& out);
  void emit(tcp::ConnId conn, const tcp::SegmentOut& segment, Nanos now, SimLink& out);
  void check_window(tcp::ConnId conn, const tcp::SegmentOut& segment);
  void send_piece(const FourTuple& tuple, const tcp::SegmentOut& piece, std::vector<uint8_t> bytes,
                  Nanos now, SimLink& out);
  void bury(tcp::ConnId conn);
  void fail(std::string text);
  void print(const Packet& packet, Nanos now) const;
  void trace(uint64_t value);
  uint32_t hold_bytes(std::vector<uint8_t> bytes);

  HostConfig config_;
  IpAddress address_;
  uint64_t seed_;
  uint64_t name_;
  std::unique_ptr<tcp::Engine> engine_;
  std::map<FourTuple, tcp::ConnId> table_;
  std::vector<App> apps_;
  std::map<tcp::ConnId, uint32_t> app_of_;
  std::vector<std::vector<uint8_t>> store_;
  std::vector<uint32_t> store_free_;
  uint64_t trace_hash_ = 0xcbf29ce484222325u;
  std::string failure_;
};

}  // namespace lyre::sim
