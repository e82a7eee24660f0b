#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "stack/io/backend.h"

namespace lyre {

/// Starts the NIC API for the configured ports. Only backend.cc names one. `owner`: a process that
/// has the NICs now; none: they are free.
/// Fails: one line that says what is missing.
Result<std::unique_ptr<io::Backend>> start_backend(const Config& config,
                                                   const std::optional<io::NicOwner>& owner);

/// Virtual devices (net_...) that Lyre does not support, and options that their drivers do not
/// have: a line like those of load_config() for each. Opens no device. REQUIRES: place_workers().
std::vector<Error> check_virtual_devices(const Config& config);

/// How many workers the virtual devices of `config` allow, by the queue pairs that their options
/// name. UINT32_MAX: any number. Opens no device.
uint32_t virtual_workers_max(const Config& config);

/// NICs that this version of it cannot drive as they are bound: a line like those of load_config()
/// for each. Opens no device.
std::vector<std::string> check_nics(const Config& config);
/// The same of NICs that no port has: one line for each that is refused.
std::vector<std::string> check_nics(const std::vector<std::string>& devices);

/// For people, a line for each port that will send and receive through the host, because this
/// version of it has no driver of the NIC's virtual function. `lyre doctor` reads it.
std::string host_path_text(const Config& config);

/// Name and version of that API, as "DPDK 22.11.7".
std::string backend_text();

}  // namespace lyre
