#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "machine/files.h"

namespace lyre::machine {

/// The threads of the machine that run or wait for a processor, from the text of /proc/loadavg;
/// none where it is no such text.
std::optional<uint32_t> runnable_threads(std::string_view loadavg);

/// Whether Linux schedules the threads of a process in one group with those of the calling one: a
/// yield reaches threads of the own group only. A group is a cgroup with the cpu controller; of the
/// processes in none, each session is one where the kernel groups those (autogroup). False where it
/// cannot be known, as of a process that is not visible here (pid 0).
bool is_of_own_group(const Roots& roots, int32_t pid);

}  // namespace lyre::machine
