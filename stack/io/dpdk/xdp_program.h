#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "stack/base/ip_address.h"
#include "stack/base/result.h"
#include "stack/io/dpdk/device_args.h"

namespace lyre::io::dpdk {

/// The XDP program of a port that shares an interface with the kernel
/// (stack/io/dpdk/xdp/own_addresses.bpf.c), as a file in memory from which DPDK's driver loads it.
/// Thread: the control thread. Owner: the port, because the driver loads it again when it opens the
/// device again.
class XdpProgram {
 public:
  /// Its port gets the packets of `own` and no others. Fails: too many addresses, no memory.
  static Result<XdpProgram> make(std::span<const IpAddress> own);
  XdpProgram() = default;  ///< none
  XdpProgram(XdpProgram&& other) noexcept;
  XdpProgram& operator=(XdpProgram&& other) noexcept;
  ~XdpProgram();

  /// For this process only. Empty for none.
  std::string path() const;

  /// Before the device of `args` is made. Gives one on AF_XDP that has `own` addresses, and no
  /// program by its arguments, a program of this class: the driver's own one takes every packet of
  /// the interface from the kernel. Fails: as make(); EEXIST the interface has a program.
  Status prepare(DeviceArgs& args, std::span<const IpAddress> own);
  /// After the device was closed. The driver detaches nothing from an interface that is gone.
  void detach();

 private:
  explicit XdpProgram(int fd) : fd_(fd) {}

  int fd_ = -1;
  uint32_t interface_index_ = 0;  ///< where the driver attaches a program; 0: nowhere
};

}  // namespace lyre::io::dpdk
