#pragma once

#include <cstdint>
#include <string>

#include "nccl_adapter/comm/host_patience.h"
#include "nccl_adapter/protocol/handle.h"
#include "nccl_adapter/transport/shortage.h"

/// What the adapter asks the operating system, and where it waits. Only plugin/ and daemon_link/
/// call this: whatever is below gets time and chance as arguments. The simulator puts its own
/// system.cc in the place of this one (tests/sim/adapter).
/// Thread: any.
namespace lyre::nccl_adapter {

/// Nanoseconds of a clock that only goes forward.
int64_t monotonic_ns();
/// Sleeps for about so long.
void sleep_ns(int64_t ns);
/// Other threads that are ready to run on this core go first.
void yield_core();
/// Sleeps until one of the two descriptors is readable, at most for so long.
void wait_readable(int one, int other, int64_t ns);
/// 128 unpredictable bits from the kernel.
Nonce make_nonce();
/// This machine's name, for messages on the other side.
std::string host_name();
uint32_t process_id();
/// Of this process: all its communicators share it.
HostPatience& host_patience();
/// The same.
Shortage& shortage();

}  // namespace lyre::nccl_adapter
