#pragma once

#include <string>
#include <vector>

#include "tools/lyre/doctor/finding.h"
#include "tools/lyre/doctor/job.h"

namespace lyre::tools {

/// Whether NCCL in this process would load the plugin, and the plugin reach a daemon: by the
/// process's environment and its own view of the file system. Runs nothing of the process's.
std::vector<Finding> check_job(const Job& job);

}  // namespace lyre::tools
