#pragma once

#include <vector>

#include "tools/lyre/doctor/finding.h"
#include "tools/lyre/snapshot.h"

/// What `lyre doctor` finds in the stats segment about the ports of a daemon that runs. Nothing is
/// sent for it.
namespace lyre::tools {

/// Of each port whether it carries packets.
std::vector<Finding> check_links(const Snapshot& snapshot);
/// Of each port whether another host uses one of its addresses. The daemon probes for IPv4
/// addresses when it starts and when a link comes up (RFC 5227), and for those of IPv6 before it
/// uses them (RFC 4862).
std::vector<Finding> check_addresses(const Snapshot& snapshot);
/// Of each NIC what it does in place of the processor: RSS, TSO, checksums.
std::vector<Finding> check_offloads(const Snapshot& snapshot);
/// The peers of open sessions to which the path, or the peer's own port, carries less than the MTU
/// of the port.
std::vector<Finding> check_paths(const Snapshot& snapshot);
/// Segments that were dropped for their checksum; nothing if there were none. A problem where they
/// are many, or more than in `earlier`, a look at the same daemon; nullptr: there was none.
std::vector<Finding> check_checksums(const Snapshot& snapshot, const Snapshot* earlier);
/// Whether that check needs an earlier look.
bool needs_earlier_look(const Snapshot& snapshot);

}  // namespace lyre::tools
