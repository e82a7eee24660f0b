#pragma once

#include <cstdint>

#include "stack/base/nanos.h"

namespace lyre::tcp {

enum class CongestionAlgorithm : uint8_t { kNewReno, kCubic, kDctcp };

/// RFC 3168, with the choices of Linux. DCTCP requests ECN in every mode.
enum class EcnMode : uint8_t {
  kOff,
  kAccept,  ///< accept the peer's request
  kOn,      ///< request it as well
};

/// A connection whose application closed it, and whose peer neither takes what is left nor
/// acknowledges it, is given up after this time or its orphan timeout, whichever is longer: nobody
/// else would end it. Less, where the user timeout is less and the peer does not answer. RFC 1122
/// 4.2.3.5: R2 is at least 100 s.
inline constexpr Nanos kOrphanWaitMin = seconds(120);

/// Sizes of an engine. Memory is reserved at construction and used when it is first written.
struct EngineConfig {
  uint32_t connections_max = 4096;
  uint32_t sent_records_max = 65536;   ///< records of sent, unacknowledged data (scoreboards)
  uint32_t received_runs_max = 65536;  ///< payloads kept in receive queues
};

/// Initial settings of one connection. The defaults are those of a Linux host.
/// Every connection has a copy, so times are stored in the units in which they are configured.
struct ConnectionConfig {
  uint64_t pacing_bytes_per_s_max = 0;      ///< 0: window only; else paced also without `pacing`
  uint32_t receive_buffer_bytes = 4 << 20;  ///< the maximum; charged by packet, not by payload byte
  uint32_t receive_buffer_start_bytes = 256 << 10;  ///< grows with what the application reads
  uint32_t send_buffer_bytes = 8 << 20;             ///< the limit of Engine::send_room_bytes()
  uint32_t slot_bytes = 2048;             ///< the charge of one full-sized received packet
  uint32_t user_timeout_ms = 20'000;      ///< RFC 9293 3.8.3: limit of the time unacknowledged
  uint32_t connect_timeout_ms = 180'000;  ///< active opens; RFC 9293 3.8.3: at least 3 min
  uint32_t rto_min_us = 200'000;          ///< RFC 6298: 1 s; Linux and this stack: 200 ms
  uint32_t rto_max_ms = 60'000;
  uint32_t time_wait_ms = 60'000;           ///< as Linux; RFC 9293 3.4.2: 2 MSL = 4 min
  uint32_t keepalive_idle_ms = 7'200'000;   ///< RFC 9293 3.8.4: at least two hours by default
  uint32_t keepalive_interval_ms = 75'000;  ///< between probes; as Linux
  uint32_t accept_defer_ms = 0;             ///< passive: until then a bare ACK does not establish
  uint32_t orphan_timeout_ms = 60'000;      ///< in FIN-WAIT-2 after the application closed
  uint16_t ack_delay_ms = 40;               ///< RFC 9293 3.8.6.3: at most 500 ms
  /// Passive opens: short, because a SYN costs its sender nothing.
  uint16_t syn_received_timeout_s = 10;
  uint16_t mss_bytes = 1460;  ///< largest payload this side can receive and send
  CongestionAlgorithm congestion = CongestionAlgorithm::kCubic;
  EcnMode ecn = EcnMode::kAccept;
  bool pacing = false;      ///< spreads a window over its round trip instead of sending it at once
  bool timestamps = true;   ///< RFC 7323
  bool sack = true;         ///< RFC 2018
  bool syn_cookies = true;  ///< RFC 4987: when a backlog is full
  bool window_scaling = true;        ///< RFC 7323
  bool nagle = false;                ///< RFC 9293 3.7.4; off: small segments are sent at once
  bool keepalive = false;            ///< RFC 9293 3.8.4: off by default
  bool cork = false;                 ///< full segments only, but others after some 200 ms
  bool quick_ack = false;            ///< never delay an ACK
  bool limits_challenges = true;     ///< RFC 5961 7; off only in tests that count challenge ACKs
  uint8_t quick_acks_at_start = 16;  ///< segments acknowledged at once, for the peer's slow start
  uint8_t keepalive_count = 9;       ///< so many unanswered probes end the connection; as Linux
};

}  // namespace lyre::tcp
