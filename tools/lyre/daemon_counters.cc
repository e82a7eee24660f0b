#include "tools/lyre/daemon_counters.h"

#include "tools/lyre/snapshot.h"

namespace lyre::tools {

TcpPayloadBytes tcp_payload_bytes(const Snapshot& snapshot) {
  TcpPayloadBytes total{.started_unix_ns = snapshot.started_unix_ns,
                        .is_domain = snapshot.is_domain};
  for (const WorkerSnapshot& worker : snapshot.workers) {
    total.sent += worker[Counter::tcp_payload_out];
    total.received += worker[Counter::tcp_payload_in];
  }
  return total;
}

TcpPayloadBytes daemon_tcp_payload_bytes(const std::string& socket) {
  return tcp_payload_bytes(StatsSegment(socket.c_str()).look());
}

}  // namespace lyre::tools
