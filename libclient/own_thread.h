#pragma once

#include <optional>

#include "libclient/starvation.h"

/// What the library asks the kernel about the calling thread, and of it. Thread: any.
namespace lyre::client {

/// Nothing where the kernel keeps no such account, or /proc is not there.
std::optional<RunDelay> read_run_delay();

/// Leaves this core for another one that the thread's affinity allows; the affinity is afterwards
/// what it was. False: there is no other, or the system forbids it.
bool move_to_another_core();

}  // namespace lyre::client
