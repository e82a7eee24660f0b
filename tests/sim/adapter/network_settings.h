#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/sim/adapter/events.h"

namespace lyre::adapter_sim {

/// The addresses that each port of a host has.
enum class Families { kIpv4, kIpv6, kBoth /* the IPv4 one first */ };

struct NetworkSettings {
  size_t hosts = 2;
  size_t rails = 1;
  bool is_routed = true;              ///< every rail reaches every other; else only its own network
  bool is_one_network = false;        ///< of all rails: then no pair needs a router
  bool are_single_addresses = false;  ///< IPv4 addresses are /32: no prefix shows a network
  int64_t delay_ns = 20 * kUs;        ///< one way; each path has its own, up to four times this
  uint64_t bytes_per_s = 1'000'000'000;
  /// What starts or ends at a rail that is named here is as slow as the slower one of its two.
  std::vector<uint64_t> rail_bytes_per_s = {};
  uint64_t host_bytes_per_s = 0;  ///< of all that a host sends; 0: no limit, as for the next two
  uint64_t flow_bytes_per_s = 0;  ///< of one connection
  /// Between two hosts. Connections 1 and 2 share one, the next have others, the rest any of them.
  size_t fabric_paths = 0;
  uint64_t fabric_path_bytes_per_s = 0;
  uint32_t port_mbps = 10'000;  ///< as clients are told; 0: unknown
  uint32_t segment_bytes_max = 65'536;
  uint64_t in_flight_bytes_max = 512 * 1024;  ///< sent and not acknowledged, a connection
  uint64_t queue_bytes = 0;       ///< what may be queued on a path, the rest is lost; 0: all
  uint32_t pool_bytes = 1 << 20;  ///< received and not released, a connection
  uint64_t arena_bytes = 64 << 20;
  uint32_t loss_ppm = 0;         ///< of packets
  bool is_memory_direct = true;  ///< registered memory is read in place
  int64_t ack_delay_ns = 0;      ///< data without a FIN is acknowledged so much later
  bool lags_acks = false;        ///< unacknowledged bytes are told late, as lyre.h allows
  size_t connects_max = 0;       ///< of a client, at the same time; 0: no limit, as below
  size_t host_connects_max = 0;  ///< of all clients of a host
  size_t host_accepts_max = 0;   ///< connections that peers begin; its daemon drops other SYNs
  int workers = 1;
  bool are_cores_busy = false;  ///< another thread computes on every core: waits are sleeps
  int64_t user_timeout_ns = 120 * kSecond;  ///< the daemons' own
  std::vector<Families> families = {};      ///< of each host; those that are not named have IPv4
};

}  // namespace lyre::adapter_sim
