#pragma once

#include <span>
#include <string>

#include "stack/base/ip_address.h"
#include "stack/base/result.h"

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

 private:
  explicit XdpProgram(int fd) : fd_(fd) {}

  int fd_ = -1;
};

}  // namespace lyre::io::dpdk
