#pragma once

#include <cstdint>
#include <string>

namespace lyre::tools {

/// TCP payload that a daemon has moved since it started, all workers together.
struct TcpPayloadBytes {
  uint64_t sent = 0;            ///< without retransmissions
  uint64_t received = 0;        ///< in order
  int64_t started_unix_ns = 0;  ///< the daemon's start: counters of two starts do not compare
};

/// Looks into the stats segment of the daemon behind `socket`.
/// Fails: throws Failure, one line.
TcpPayloadBytes daemon_tcp_payload_bytes(const std::string& socket);

}  // namespace lyre::tools
