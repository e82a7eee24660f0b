#include "stack/io/dpdk/driver_sockets.h"

#include <linux/if_xdp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <string>

#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/packet_sockets.h"

namespace lyre::io::dpdk {
namespace {

/// Of a packet's struct sk_buff, its headers and struct skb_shared_info: 768 to 1280, by the
/// interface's headroom. The payload stays in the ring.
constexpr uint64_t kBufferOverheadBytes = 2048;

uint64_t number_of(const DeviceArgs& args, std::string_view option) {
  return std::strtoull(std::string(args.value_of(option)).c_str(), nullptr, 10);
}

}  // namespace

uint64_t send_buffer_bytes(const DeviceArgs& args) {
  return number_of(args, "framecnt") * (number_of(args, "framesz") + kBufferOverheadBytes);
}

void DriverSockets::begin(WaitKind wait) {
  domain_ = wait == WaitKind::kXdpSocket ? AF_XDP : AF_PACKET;
  before_ = sockets_of(domain_);
}

void DriverSockets::find() {
  const std::vector<int> now = sockets_of(domain_);
  found_.clear();
  std::set_difference(now.begin(), now.end(), before_.begin(), before_.end(),
                      std::back_inserter(found_));
}

/// DPDK 22.11's AF_XDP driver miscounts the users of a closed port's memory and leaves its socket
/// open (eth_dev_close() compares one less than the count with 0), which keeps the queue of the
/// interface. Later releases do not: a number that is no such socket any more is left alone.
void DriverSockets::end() {
  if (domain_ == AF_XDP) {
    const std::vector<int> open = sockets_of(domain_);
    for (const int fd : found_) {
      if (std::find(open.begin(), open.end(), fd) != open.end()) ::close(fd);
    }
  }
  found_.clear();
}

bool DriverSockets::is_any_zero_copy() const {
  return domain_ == AF_XDP && std::any_of(found_.begin(), found_.end(), [](int fd) {
           xdp_options options = {};
           socklen_t bytes = sizeof options;
           const int rc = ::getsockopt(fd, SOL_XDP, XDP_OPTIONS, &options, &bytes);
           return rc != 0 || (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
         });
}

uint64_t DriverSockets::packets_lost() {
  if (domain_ != AF_PACKET) return lost_;
  for (const int fd : found_) lost_ += take_lost_packets(fd);
  return lost_;
}

/// The kernel doubles the number that it is given.
void DriverSockets::grow_send_buffers(uint64_t bytes) const {
  const int half = static_cast<int>(std::min<uint64_t>(bytes, INT_MAX / 2));
  for (const int fd : found_) {
    if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &half, sizeof half) == 0) continue;
    static_cast<void>(::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof half));
  }
}

}  // namespace lyre::io::dpdk
