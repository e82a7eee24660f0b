#pragma once

#include <string>

#include "daemon/config/config.h"
#include "daemon/host/capabilities.h"
#include "machine/files.h"

namespace lyre {

/// Fails: a line for the first port for which `held` is not enough, with what is allowed.
Status check_privileges(const Config& config, Capabilities held, const machine::Roots& roots = {});

/// What the daemon keeps once its ports are open.
Capabilities capabilities_to_keep(const Config& config, const machine::Roots& roots = {});

}  // namespace lyre
