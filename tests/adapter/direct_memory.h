#pragma once

#include <string>

#include "tools/nccl_emulator/shared_pages.h"

namespace lyre::test {

using nccl_emulator::SharedPages;

/// Whether the daemon at `socket`, asked without the plugin, can send such memory without a copy.
/// It needs capabilities for that.
bool is_direct(const std::string& socket, const SharedPages& memory);

}  // namespace lyre::test
