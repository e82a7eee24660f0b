#pragma once

#include <cstdint>
#include <string>

namespace lyre::tools {

struct Snapshot;

/// TCP payload that a daemon has moved since it started, all workers together.
struct TcpPayloadBytes {
  uint64_t sent = 0;            ///< without retransmissions
  uint64_t received = 0;        ///< in order
  int64_t started_unix_ns = 0;  ///< when the daemon started; each start begins at zero
  bool is_domain = false;       ///< counters are not shown at a domain's socket: both are 0
};

TcpPayloadBytes tcp_payload_bytes(const Snapshot& snapshot);

/// Reads the stats segment of the daemon that listens at `socket`. Fails: throws Failure.
TcpPayloadBytes daemon_tcp_payload_bytes(const std::string& socket);

}  // namespace lyre::tools
