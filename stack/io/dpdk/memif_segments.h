#pragma once

#include <cstdint>
#include <string>

#include "stack/base/result.h"
#include "stack/io/dpdk/nic_check.h"

namespace lyre::io::dpdk {

/// How the memif driver of a version of DPDK sends a packet of several segments.
enum class MemifSegments : uint8_t {
  kPacked,   ///< one behind the other in a buffer of the ring
  kChained,  ///< in a buffer of the ring each
  kMerged,   ///< as kChained, but packets that follow are merged with it or destroyed
};
MemifSegments memif_segments(const DpdkVersion& version);

/// Whether a memif port gives the driver packets of several segments. Where it does not, a packet
/// with pieces is copied into one buffer first.
bool gathers_on_memif(const DpdkVersion& version, bool has_super_packets);

/// The remark of a port that does not gather, for its PortInfo; empty: it gathers.
std::string memif_remark(const DpdkVersion& version, bool has_super_packets);

/// Super-packets do not fit one buffer of a copy. `port`: the name that starts the line.
/// Fails: EINVAL, one line that names the versions that can send them.
Status check_memif_super_packets(const std::string& port, const DpdkVersion& version);

}  // namespace lyre::io::dpdk
