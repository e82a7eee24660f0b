#include "stack/io/dpdk/xdp_sockets.h"

#include <linux/if_xdp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "stack/io/dpdk/kernel_interface.h"

namespace lyre::io::dpdk {
namespace {

bool is_xdp_socket(int fd) {
  int domain = 0;
  socklen_t bytes = sizeof domain;
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_XDP;
}

}  // namespace

void XdpSockets::begin() {
  // Without it, sockets of other ports would be taken for this port's.
  auto before = sockets_of(AF_XDP);
  has_begun_ = true;
  is_known_ = before.has_value();
  if (before) before_ = std::move(*before);
}

void XdpSockets::find() {
  if (!has_begun_) return;
  const auto now = sockets_of(AF_XDP);
  is_known_ = is_known_ && now.has_value();
  if (!is_known_) return;
  found_.clear();
  std::set_difference(now->begin(), now->end(), before_.begin(), before_.end(),
                      std::back_inserter(found_));
}

/// DPDK 22.11's driver miscounts the users of a closed port's memory and leaves its socket open
/// (eth_dev_close() compares one less than the count with 0), which keeps the queue of the
/// interface. Later releases do not: a number that is no such socket any more is left alone.
void XdpSockets::end() {
  for (const int fd : found_) {
    if (is_xdp_socket(fd)) ::close(fd);
  }
  found_.clear();
}

bool XdpSockets::is_any_zero_copy() const {
  if (!is_known_) return true;
  return std::any_of(found_.begin(), found_.end(), [](int fd) {
    xdp_options options = {};
    socklen_t bytes = sizeof options;
    const int rc = ::getsockopt(fd, SOL_XDP, XDP_OPTIONS, &options, &bytes);
    return rc != 0 || (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
  });
}

}  // namespace lyre::io::dpdk
