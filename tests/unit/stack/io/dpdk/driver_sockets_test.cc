#include "stack/io/dpdk/driver_sockets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "stack/io/dpdk/device_args.h"
#include "tests/unit/stack/io/dpdk/own_network.h"

namespace lyre::io::dpdk {
namespace {

int send_buffer_of(int fd) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  EXPECT_EQ(::getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &size), 0);
  return bytes;
}

/// The sockets of a device, one of which was open before.
class DriverSocketsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (earlier_ < 0) GTEST_SKIP() << "needs CAP_NET_RAW";
    sockets_.begin(WaitKind::kPacketSocket);
    first_ = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    second_ = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    sockets_.find();
  }
  ~DriverSocketsTest() override {
    for (const int fd : {earlier_, first_, second_}) {
      if (fd >= 0) ::close(fd);
    }
  }

  DriverSockets sockets_;
  const int earlier_ = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  int first_ = -1;
  int second_ = -1;
};

TEST_F(DriverSocketsTest, AreThoseThatAppearWhileTheDeviceIsOpened) {
  EXPECT_EQ(sockets_.of_queue(0), first_);
  EXPECT_EQ(sockets_.of_queue(1), second_);
  EXPECT_EQ(sockets_.of_queue(2), -1);
  sockets_.end();
  EXPECT_EQ(sockets_.of_queue(0), -1);
  EXPECT_GT(send_buffer_of(first_), 0) << "the driver closes it";
}

// poll() of net_af_packet did not return while packets filled half of the buffer: the worker stood
// still until the interface had sent some.
TEST_F(DriverSocketsTest, LessThanHalfOfTheSendBufferIsUsedByAWholeRing) {
  constexpr int kBytes = 100'000;
  const int before = send_buffer_of(earlier_);
  sockets_.grow_send_buffers(kBytes);
  EXPECT_EQ(send_buffer_of(first_), 2 * kBytes);
  EXPECT_EQ(send_buffer_of(second_), 2 * kBytes);
  EXPECT_EQ(send_buffer_of(earlier_), before);
}

/// Sends more to an address of "lo" than the smallest receive buffer holds.
void flood_lo() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request = {};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  EXPECT_EQ(::ioctl(fd, SIOCSIFFLAGS, &request), 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const char bytes[1000] = {};
  for (int i = 0; i < 100; ++i) {
    ::sendto(fd, bytes, sizeof bytes, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  ::close(fd);
}

// Nothing told of packets that a slow worker lost.
TEST(DriverSocketsLosses, AreCountedFromTheFirstSocketOn) {
  const bool is_made = in_own_network([] {
    DriverSockets sockets;
    uint64_t lost = 0;
    for (int opened = 0; opened < 2; ++opened) {
      sockets.begin(WaitKind::kPacketSocket);
      const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
      sockets.find();
      EXPECT_EQ(sockets.packets_lost(), lost);
      const int smallest = 1;
      EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest), 0);
      flood_lo();
      EXPECT_GT(sockets.packets_lost(), lost);
      lost = sockets.packets_lost();
      EXPECT_GT(lost, 0u) << "the kernel counts from zero after each look";
      sockets.end();
      ::close(fd);
      EXPECT_EQ(sockets.packets_lost(), lost);
    }
  });
  if (!is_made) GTEST_SKIP() << "may make no network namespace";
}

TEST(SendBufferBytes, AreThoseOfTheFramesAndTheirHeaders) {
  constexpr uint64_t kHeadersAtLeast = 1280;  // struct sk_buff and 1024 bytes
  DeviceArgs args = DeviceArgs::parse("net_af_packet0,iface=eth1");
  ASSERT_TRUE(prepare_virtual_device(args, {.mtu_bytes = 1500}));
  EXPECT_GE(send_buffer_bytes(args), 512 * (1500 + kHeadersAtLeast));
  EXPECT_EQ(send_buffer_bytes(DeviceArgs::parse("net_af_xdp0,iface=eth1")), 0u);
}

}  // namespace
}  // namespace lyre::io::dpdk
