#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "machine/processors.h"

namespace lyre::machine {

/// Mb/s that one worker is reckoned to carry, both ways together with its clients on other cores.
/// In the benchmarks a worker that shares its core with its client carries more, on a memory wire
/// (docs/user/benchmarks.md, "bulk, MTU 1500: 8 sessions"); on a NIC it has not been measured.
constexpr uint32_t kWorkerMbps = 15000;

/// As many as a speed needs; 0 where it is 0 (unknown).
constexpr uint32_t workers_of(uint64_t mbps) {
  return static_cast<uint32_t>((mbps + kWorkerMbps - 1) / kWorkerMbps);
}

/// What a port asks for.
struct PortDemand {
  int node = -1;                    ///< its NIC's NUMA node; -1: none or unknown
  uint32_t speed_mbps = 0;          ///< 0: unknown
  bool needs_power_of_two = false;  ///< its driver takes such numbers of queues only
};

/// What a port on `device` (a PCI address or a virtual device with an interface) asks for: the
/// speed is `known_mbps`, or else what the kernel says while it has the NIC.
PortDemand demand_of(const Roots& roots, const std::string& device, uint32_t known_mbps);

/// The processors for workers, ascending: of each NIC's node as many as the speeds of its ports ask
/// for and the node has, and not more than `most` in all; a power of two where a port needs that.
/// Where more are asked for in all, each node has its share in proportion. Each has one at least,
/// as far as `most` suffices. Takes one processor of each physical core before the second, higher
/// numbers before lower ones, processors of another node only where no NIC's node has any, and
/// processor 0 only where there is no other. Where the speeds ask for fewer than `least`, nodes get
/// one more each in turn, and what one node lacks the others give.
/// REQUIRES: `processors` is not empty, 0 < least <= most.
std::vector<uint32_t> choose_cores(std::span<const Processor> processors,
                                   std::span<const PortDemand> ports, uint32_t most,
                                   uint32_t least = 1);

/// The processors to which the worker of `core` may go while another thread computes there: those
/// of its node, without `workers` and `isolated` ones. Where only workers' are left: theirs.
/// Ascending; none if there are no others.
std::vector<uint32_t> other_cores(std::span<const Processor> processors, uint32_t core,
                                  std::span<const uint32_t> workers,
                                  std::span<const uint32_t> isolated);

/// The node whose memory a worker at `worker_node` uses: that of the NICs where they have one in
/// common, else its own.
int memory_node(std::span<const PortDemand> ports, int worker_node);

}  // namespace lyre::machine
