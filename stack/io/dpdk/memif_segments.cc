#include "stack/io/dpdk/memif_segments.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace lyre::io::dpdk {
namespace {

/// The fast paths of eth_memif_tx() and eth_memif_rx(). The first is taken where all heads of a
/// burst are of one pool whose packets fit a buffer of the ring. A burst of Lyre may mix pools:
/// then the slow path packs each packet, which fits one slot.
constexpr DpdkVersion kChainedFrom{23, 3, 0};

/// In these and kMendedFrom the sender clears the flag NEXT of a slot that it uses again
/// ("net/memif: fix descriptor Tx flags corruption"): before, a packet that ended in such a slot
/// was merged with the next one, and the receiver read slots that were not filled. The receiver's
/// slow path, on which super-packets arrive, puts the bytes of a slot behind those of the slot
/// before ("net/memif: fix multi-segment Rx corruption"): before, it wrote them over these.
constexpr DpdkVersion kMended[] = {{23, 11, 7}, {24, 11, 5}, {25, 11, 1}};
/// Of 26.03 from rc3 on; candidates are not told apart.
constexpr DpdkVersion kMendedFrom{26, 3, 0};
constexpr const char* kMendedText = "23.11.7, 24.11.5, 25.11.1, or 26.03 or later";

bool is_memif_mended(const DpdkVersion& version) {
  return version >= kMendedFrom ||
         std::any_of(std::begin(kMended), std::end(kMended), [&](const DpdkVersion& mended) {
           return version.year == mended.year && version.month == mended.month &&
                  version.patch >= mended.patch;
         });
}

}  // namespace

MemifSegments memif_segments(const DpdkVersion& version) {
  if (version < kChainedFrom) return MemifSegments::kPacked;
  return is_memif_mended(version) ? MemifSegments::kChained : MemifSegments::kMerged;
}

/// Chains save no copy: the receiver gets headers and payload in two buffers, which are joined by a
/// copy (Queue::linearise_received()). They take two slots of the ring for each packet. Where the
/// receiver's pool is empty after the first segment, the driver takes the next one, which is bytes
/// of a client, for a packet (eth_memif_rx(), 23.03 to 26.07). Of super-packets none of this is
/// true: they arrive on the slow path, which packs them into as few buffers as hold them, and the
/// receiver asks only for as many as its pool has buffers for.
bool gathers_on_memif(const DpdkVersion& version, bool has_super_packets) {
  const MemifSegments segments = memif_segments(version);
  return segments == MemifSegments::kPacked ||
         (segments == MemifSegments::kChained && has_super_packets);
}

std::string memif_remark(const DpdkVersion& version, bool has_super_packets) {
  if (gathers_on_memif(version, has_super_packets)) return "";
  return "packets that are sent are copied into one buffer each: the memif driver of DPDK " +
         version.text() + " does not pack the segments of a packet";
}

Status check_memif_super_packets(const std::string& port, const DpdkVersion& version) {
  if (memif_segments(version) != MemifSegments::kMerged) return Ok{};
  return Error{EINVAL, port + ": no super-packets: the memif driver of DPDK " + version.text() +
                           " merges packets of several segments, allowed: super_packets = false, "
                           "or DPDK " +
                           kMendedText};
}

}  // namespace lyre::io::dpdk
