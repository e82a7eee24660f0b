#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <span>

#include "stack/base/ip_address.h"

namespace lyre::io::dpdk {

/// How the kernel divides the packets of an interface among the packet sockets of a port: TCP by
/// addresses and ports, the same in both directions. Everything else, and fragments, which have no
/// ports, come to the first socket.
/// The queue that receives the packets of this connection. REQUIRES: queue_count > 0.
uint32_t steered_queue(const FourTuple& tuple, uint32_t queue_count);

/// The same as a program for PACKET_FANOUT_DATA, whose result the kernel takes modulo the number of
/// sockets.
std::span<const sock_filter> steering_program();

}  // namespace lyre::io::dpdk
