#include "tools/lyre/daemon_counters.h"

#include "tools/lyre/snapshot.h"

namespace lyre::tools {

TcpPayloadBytes daemon_tcp_payload_bytes(const std::string& socket) {
  const Snapshot snapshot = StatsSegment(socket.c_str()).look();
  TcpPayloadBytes total{.started_unix_ns = snapshot.started_unix_ns};
  for (const WorkerSnapshot& worker : snapshot.workers) {
    total.sent += worker[Counter::tcp_payload_out];
    total.received += worker[Counter::tcp_payload_in];
  }
  return total;
}

}  // namespace lyre::tools
