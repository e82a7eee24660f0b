#pragma once

#include <cstdint>

#include "stack/io/dpdk/memory.h"
#include "stack/io/dpdk/port_setup.h"

namespace lyre::io::dpdk {

/// Takes from `setup` the offloads of TCP that the device has over IPv4 only. DPDK has one
/// capability for both families, so the driver is asked whether it would send such packets: ena
/// refuses them in rte_eth_tx_prepare() by what its device reports. Nothing is sent. A port
/// without TCP checksums is not asked.
/// REQUIRES: the port was started. Thread: the control thread, while no worker uses the port.
/// Fails: ENOMEM, no packet buffer is free to ask with; one line that names the device.
Status limit_to_ipv6_offloads(uint16_t port_id, Memory& memory, PortSetup& setup);

}  // namespace lyre::io::dpdk
