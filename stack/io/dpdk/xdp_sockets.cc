#include "stack/io/dpdk/xdp_sockets.h"

#include <linux/if_xdp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "stack/io/dpdk/kernel_interface.h"

namespace lyre::io::dpdk {

void XdpSockets::begin() {
  has_begun_ = true;
  before_ = sockets_of(AF_XDP);
}

void XdpSockets::find() {
  if (!has_begun_) return;
  const std::vector<int> now = sockets_of(AF_XDP);
  found_.clear();
  std::set_difference(now.begin(), now.end(), before_.begin(), before_.end(),
                      std::back_inserter(found_));
}

/// DPDK 22.11's driver miscounts the users of a closed port's memory and leaves its socket open
/// (eth_dev_close() compares one less than the count with 0), which keeps the queue of the
/// interface. Later releases do not: a number that is no such socket any more is left alone.
void XdpSockets::end() {
  if (found_.empty()) return;
  const std::vector<int> open = sockets_of(AF_XDP);
  for (const int fd : found_) {
    if (std::find(open.begin(), open.end(), fd) != open.end()) ::close(fd);
  }
  found_.clear();
}

bool XdpSockets::is_any_zero_copy() const {
  return std::any_of(found_.begin(), found_.end(), [](int fd) {
    xdp_options options = {};
    socklen_t bytes = sizeof options;
    const int rc = ::getsockopt(fd, SOL_XDP, XDP_OPTIONS, &options, &bytes);
    return rc != 0 || (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
  });
}

}  // namespace lyre::io::dpdk
