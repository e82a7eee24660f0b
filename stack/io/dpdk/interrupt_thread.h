#pragma once

namespace lyre::io::dpdk {

/// Waits until DPDK's interrupt thread has finished its current callback, for a tenth of a second
/// at most. When a memif peer leaves, that thread frees the connection; a port that is closed
/// meanwhile frees it twice. Thread: any but that one.
/// Returns false when it has not: its callback waits for something. True without such a thread.
bool let_interrupt_thread_finish();

}  // namespace lyre::io::dpdk
