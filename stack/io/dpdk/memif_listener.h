#pragma once

#include <string>

#include "stack/io/dpdk/device_args.h"

namespace lyre::io::dpdk {

/// What is left of a memif server's socket. Ports of a process share the listener of a path. With
/// the last of them, server or client, net_memif frees what the listener's interrupt callback uses,
/// and neither closes the socket nor removes the callback (memif_socket_remove_device() of 22.11 to
/// 26.07). DPDK's interrupt thread then uses freed memory when a connection comes, or when one that
/// has no port yet says something, and an abstract name stays taken.
/// Thread: the control thread. One object for each port.
class MemifListener {
 public:
  /// Call when the device is open. Does nothing for other drivers.
  void begin(const DeviceArgs& args);
  /// Call when no queue is used, before the device is stopped. The last port of a path closes the
  /// listener and ends its connections. The descriptor's number stays taken until the process ends.
  /// Fails: without a descriptor to spare the listener stays as the driver leaves it.
  /// Connections that DPDK's interrupt thread does not close stay. The log tells that they do, or
  /// that it is not known.
  void end();

 private:
  std::string path_;  ///< empty: the port has none
};

}  // namespace lyre::io::dpdk
