#pragma once

#include <cstdint>
#include <vector>

#include "machine/files.h"
#include "tools/lyre/doctor/finding.h"

namespace lyre::tools {

/// A note where the lyred with this number runs code of files that were replaced since. Nothing
/// where it runs none, where the number is another process's here, as that of a daemon in a
/// container may be, and where this user may not read its maps.
std::vector<Finding> check_replaced_files(const machine::Roots& roots, int32_t pid);

}  // namespace lyre::tools
