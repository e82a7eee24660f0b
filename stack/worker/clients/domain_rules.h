#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "stack/base/interface_address.h"
#include "stack/base/ip_address.h"

namespace lyre::worker {

/// What the clients of one domain may do. The control thread makes one for each domain before the
/// workers start, and changes nothing in it. Owner: outlives the workers.
struct DomainRules {
  static constexpr uint16_t kLowPorts = 1024;

  uint32_t index = 0;  ///< of its rows in StatsBinding
  /// One of several: its clients together have the account that those of a uid have elsewhere. Uids
  /// do not tell the domains of containers apart.
  bool has_account = false;
  uint32_t weight = 1;  ///< of each of its clients, in sending and in the receive pool
  uint32_t sessions_max = UINT32_MAX;  ///< of a worker, of all its clients
  uint32_t listeners_max = UINT32_MAX;
  uint32_t ports = UINT32_MAX;  ///< bit n: addresses of port n may be used
  bool may_listen = true;
  bool may_use_low_ports = true;        ///< local TCP ports below kLowPorts
  std::vector<InterfaceAddress> peers;  ///< networks of the peers; none: all

  /// The user whom a client's uses count for.
  static uint64_t user_of(const DomainRules* rules, uint32_t uid) {
    const bool is_domain = rules != nullptr && rules->has_account;
    return is_domain ? (uint64_t{1} << 32) + rules->index : uid;
  }

  bool allows_port(uint32_t port) const { return (ports >> port & 1) != 0; }
  bool allows_local(uint16_t tcp_port) const {
    return may_use_low_ports || tcp_port == 0 || tcp_port >= kLowPorts;
  }
  bool allows_peer(const IpAddress& peer) const {
    return peers.empty() || std::any_of(peers.begin(), peers.end(), [&](const auto& network) {
             return network.has_on_link(peer);
           });
  }
};

}  // namespace lyre::worker
