#pragma once

#include <cstdint>
#include <vector>

#include "stack/io/dpdk/device_args.h"
#include "stack/io/dpdk/driver_quirks.h"

namespace lyre::io::dpdk {

/// Bytes that the packets of a whole transmit ring of net_af_packet take of a socket's send buffer.
/// `args`: as prepare_virtual_device() left them. 0: the device has no such ring.
uint64_t send_buffer_bytes(const DeviceArgs& args);

/// The sockets of a driver on a kernel interface. DPDK does not return them: they are those that
/// appear while the device is opened.
/// Thread: the control thread. Owner: *borrows* them from the driver.
class DriverSockets {
 public:
  /// Call before the device is opened.
  void begin(WaitKind wait);
  /// Call when the device has started, or could not be.
  void find();
  /// Call when the device is closed.
  void end();

  /// The socket of a queue; -1: it has none.
  int of_queue(uint16_t queue) const { return queue < found_.size() ? found_[queue] : -1; }
  /// A NIC writes into the memory of an AF_XDP socket itself, or may do so. REQUIRES: they are
  /// open.
  bool is_any_zero_copy() const;
  /// Packets that the kernel has lost because the rings of packet sockets were full, also of those
  /// that were open before. What is lost after the last call before end() is not counted.
  uint64_t packets_lost();

  /// Lets packets of `bytes` wait in the interface's queue without filling half of a send buffer.
  /// net_af_packet waits in poll(), without a limit, for the next frame of its ring to become free.
  /// poll() returns at once while less than half of the send buffer is used (sock_writeable()), and
  /// the driver then takes no more packets. The ring limits what waits in either case.
  /// Fails: without CAP_NET_ADMIN the kernel gives no more than net.core.wmem_max.
  void grow_send_buffers(uint64_t bytes) const;

 private:
  int domain_ = 0;
  std::vector<int> before_;
  std::vector<int> found_;
  uint64_t lost_ = 0;
};

}  // namespace lyre::io::dpdk
