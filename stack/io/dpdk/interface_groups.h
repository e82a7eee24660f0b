#pragma once

#include <span>
#include <string>

#include "stack/base/mac_address.h"
#include "stack/base/result.h"

namespace lyre::io::dpdk {

/// Multicast groups whose frames the NIC under a kernel interface lets through. DPDK's drivers on
/// such interfaces join none, and the kernel's own stack knows nothing of a port's addresses. Where
/// the kernel has IPv6 on the interface, it listens to the solicited-node groups among them, too:
/// then it answers the queries of MLD routers, of which a port beside it sees none.
/// Thread: the control thread. Owner: two sockets that receive nothing; the kernel ends their
/// memberships with them, and with the interface.
class InterfaceGroups {
 public:
  InterfaceGroups() = default;  ///< none
  InterfaceGroups(const InterfaceGroups&) = delete;
  InterfaceGroups& operator=(const InterfaceGroups&) = delete;
  ~InterfaceGroups() { leave(); }

  /// Joins `groups` in place of those that were joined before. Fails, and keeps those: there is no
  /// such interface, or the privilege CAP_NET_RAW is missing.
  Status join(const std::string& interface, std::span<const MacAddress> groups);
  void leave();

 private:
  int frames_fd_ = -1;  ///< a packet socket
  int ipv6_fd_ = -1;
};

}  // namespace lyre::io::dpdk
