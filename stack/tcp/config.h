#pragma once

#include <cstdint>

namespace lyre::tcp {

enum class CongestionAlgorithm : uint8_t { kNewReno, kCubic, kDctcp };

/// RFC 3168, as Linux offers it. DCTCP asks for ECN whatever this says.
enum class EcnMode : uint8_t {
  kOff,
  kAccept,  ///< agree when the peer asks
  kOn,      ///< ask as well
};

/// What a whole engine is built with. Memory is taken at construction (and touched when used).
struct EngineConfig {
  uint32_t connections_max = 4096;
  uint32_t sent_records_max = 65536;   ///< runs of sent, unacknowledged bytes (scoreboards)
  uint32_t received_runs_max = 65536;  ///< payloads kept in receive queues
};

/// What one connection starts with. The defaults are those of a Linux host.
/// Every connection has a copy: times have the units in which they are configured.
struct ConnectionConfig {
  uint64_t pacing_bytes_per_s_max = 0;      ///< 0: no limit but the window; else paced in any case
  uint32_t receive_buffer_bytes = 4 << 20;  ///< at most; charged by packet, not by payload byte
  uint32_t receive_buffer_start_bytes = 256 << 10;  ///< it grows with what the reader takes
  uint32_t send_buffer_bytes = 8 << 20;  ///< what Engine::send_room_bytes() counts against
  uint32_t slot_bytes = 2048;            ///< what one full-sized received packet is charged
  uint32_t user_timeout_ms = 20'000;     ///< RFC 9293 3.8.3: unacknowledged this long ends it
  uint32_t connect_timeout_ms = 10'000;
  uint32_t rto_min_us = 200'000;  ///< RFC 6298 says 1 s; Linux and this: 200 ms
  uint32_t rto_max_ms = 60'000;
  uint32_t ack_delay_ms = 40;               ///< RFC 9293 3.8.6.3: at most 500 ms
  uint32_t time_wait_ms = 60'000;           ///< Linux's; RFC 9293 3.4.2 says 2 MSL = 4 min
  uint32_t keepalive_idle_ms = 7'200'000;   ///< RFC 9293 3.8.4: at least two hours by default
  uint32_t keepalive_interval_ms = 75'000;  ///< between probes; Linux's
  uint32_t accept_defer_ms = 0;  ///< passive: so long a bare ACK does not complete the handshake
  uint32_t orphan_timeout_ms = 60'000;  ///< in FIN-WAIT-2 when nobody reads any more
  uint16_t mss_bytes = 1460;            ///< largest payload this side can receive and send
  CongestionAlgorithm congestion = CongestionAlgorithm::kCubic;
  EcnMode ecn = EcnMode::kAccept;
  bool pacing = false;      ///< spreads a window over its round trip instead of sending it at once
  bool timestamps = true;   ///< RFC 7323
  bool sack = true;         ///< RFC 2018
  bool syn_cookies = true;  ///< RFC 4987: when a backlog is full
  bool window_scaling = true;        ///< RFC 7323
  bool nagle = false;                ///< RFC 9293 3.7.4; off: messages leave at once
  bool keepalive = false;            ///< RFC 9293 3.8.4: off unless asked for
  bool cork = false;                 ///< send full segments only, but wait 200 ms or so at most
  bool quick_ack = false;            ///< never delay an ACK
  bool limits_challenges = true;     ///< RFC 5961 7; off only to see each one (tests)
  uint8_t quick_acks_at_start = 16;  ///< segments acknowledged at once: a slow start wants it
  uint8_t keepalive_count = 9;       ///< so many probes unanswered end it; Linux's
};

}  // namespace lyre::tcp
