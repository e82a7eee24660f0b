#pragma once

#include <cstdint>

#include "stack/io/dpdk/memory.h"
#include "stack/io/dpdk/port_setup.h"

namespace lyre::io::dpdk {

/// Takes from `setup` the offloads of TCP that the device has over IPv4 only. DPDK has one
/// capability for both families, so the driver is asked whether it would send such packets: ena
/// refuses them in rte_eth_tx_prepare() by what its device reports. Nothing is sent.
/// REQUIRES: the port was started with TCP checksums. Thread: the control thread, while no worker
/// uses the port.
void limit_to_ipv6_offloads(uint16_t port_id, Memory& memory, PortSetup& setup);

}  // namespace lyre::io::dpdk
