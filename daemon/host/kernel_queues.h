#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "machine/receive_queues.h"

namespace lyre {

/// Of an interface, as machine::receive_queues().
using QueuesOf = std::function<std::optional<machine::ReceiveQueues>(const std::string&)>;

/// For people, a line for each port on AF_XDP whose interface also receives on queues that the port
/// does not have: the kernel gets those packets. `lyre doctor` reads it.
/// REQUIRES: place_workers().
std::vector<std::string> kernel_queues(const Config& config,
                                       const QueuesOf& queues_of = machine::receive_queues);

}  // namespace lyre
