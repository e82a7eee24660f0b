#pragma once

namespace lyre::io::dpdk {

/// Makes the pages of the memory that memif ports share with their peers present in this process.
/// The driver maps that memory when a connection begins, and touches a page when the first packet
/// is written to it, or read from it: the packet then waits for a page fault.
/// Thread: the control thread. DPDK's interrupt thread may unmap the memory meanwhile. What cannot
/// be made present is left as it is.
void populate_memif_memory();

}  // namespace lyre::io::dpdk
