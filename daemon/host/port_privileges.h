#pragma once

#include <string>
#include <string_view>

#include "daemon/config/config.h"
#include "daemon/host/capabilities.h"
#include "machine/files.h"

namespace lyre {

/// What a kind of port needs of the process.
struct PortPrivileges {
  Capabilities needed = 0;        ///< to open it, and kept: it may have to be opened again
  std::string_view drop_in = {};  ///< of the service, which gives them; empty: none is needed
};

/// By device string and, for a PCI address, by the kernel driver that the NIC is bound to.
PortPrivileges privileges_of(const std::string& device, const machine::Roots& roots = {});

/// Fails: a line for the first port for which `held` is not enough, with what is allowed.
Status check_privileges(const Config& config, Capabilities held, const machine::Roots& roots = {});

/// What the daemon keeps once its ports are open.
Capabilities capabilities_to_keep(const Config& config, const machine::Roots& roots = {});

}  // namespace lyre
