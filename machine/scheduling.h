#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lyre::machine {

/// The threads of the machine that run or wait for a processor, from the text of /proc/loadavg;
/// none where it is no such text.
std::optional<uint32_t> runnable_threads(std::string_view loadavg);

}  // namespace lyre::machine
