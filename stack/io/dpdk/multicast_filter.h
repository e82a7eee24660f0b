#pragma once

#include <cstdint>
#include <span>

#include "stack/base/mac_address.h"
#include "stack/io/dpdk/driver_quirks.h"

namespace lyre::io::dpdk {

/// Has a started port receive the frames that are sent to `groups`, and no longer those of an
/// earlier call: all multicast frames where its driver takes no list. Thread: the control thread.
/// Fails: a negative errno of the driver. A NIC that receives all of them anyway has no such call,
/// which is no failure.
int receive_groups(uint16_t port_id, const DriverQuirks& quirks,
                   std::span<const MacAddress> groups);

}  // namespace lyre::io::dpdk
