#include "stack/io/dpdk/xdp_sockets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "tests/support/no_descriptors_left.h"

namespace lyre::io::dpdk {
namespace {

int open_xdp_socket() { return ::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0); }

bool is_open(int fd) {
  int type = 0;
  socklen_t bytes = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0;
}

// Those of all ports were taken for its own, and closed with it.
TEST(XdpSocketsAtTheLimit, FindNoneWhereThoseBeforeAreNotKnown) {
  const int earlier = open_xdp_socket();
  if (earlier < 0) GTEST_SKIP() << "needs CAP_NET_RAW and a kernel with AF_XDP";
  XdpSockets sockets;
  {
    const test::NoDescriptorsLeft none;
    sockets.begin();
  }
  sockets.find();
  EXPECT_EQ(sockets.of_queue(0), -1);
  sockets.end();
  EXPECT_TRUE(is_open(earlier));
  ::close(earlier);
}

// Slots that a NIC could still write were handed out.
TEST(XdpSocketsAtTheLimit, MayBeZeroCopyWhereTheyAreNotKnown) {
  XdpSockets sockets;
  {
    const test::NoDescriptorsLeft none;
    sockets.begin();
  }
  sockets.find();
  EXPECT_TRUE(sockets.is_any_zero_copy()) << "those before are not known";
  sockets.begin();
  {
    const test::NoDescriptorsLeft none;
    sockets.find();
  }
  EXPECT_TRUE(sockets.is_any_zero_copy());
  sockets.begin();
  sockets.find();
  EXPECT_FALSE(sockets.is_any_zero_copy());
}

/// The sockets of a device, one of which was open before.
class XdpSocketsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (earlier_ < 0) GTEST_SKIP() << "needs CAP_NET_RAW and a kernel with AF_XDP";
    sockets_.begin();
    first_ = open_xdp_socket();
    second_ = open_xdp_socket();
    sockets_.find();
  }
  ~XdpSocketsTest() override {
    for (const int fd : {earlier_, first_, second_}) {
      if (fd >= 0 && is_open(fd)) ::close(fd);
    }
  }

  XdpSockets sockets_;
  const int earlier_ = open_xdp_socket();
  int first_ = -1;
  int second_ = -1;
};

TEST_F(XdpSocketsTest, AreThoseThatAppearWhileTheDeviceIsOpened) {
  EXPECT_EQ(sockets_.of_queue(0), first_);
  EXPECT_EQ(sockets_.of_queue(1), second_);
  EXPECT_EQ(sockets_.of_queue(2), -1);
}

// The driver of 22.11 left them open, and nobody else could have the queue of the interface.
TEST_F(XdpSocketsTest, AreClosedWithTheDevice) {
  ::close(first_);  // as later drivers do
  sockets_.end();
  EXPECT_FALSE(is_open(second_));
  EXPECT_TRUE(is_open(earlier_)) << "it is of another device";
  EXPECT_EQ(sockets_.of_queue(0), -1);
}

TEST_F(XdpSocketsTest, AreNoneOfADeviceWithoutThem) {
  XdpSockets none;
  none.find();
  EXPECT_EQ(none.of_queue(0), -1);
  EXPECT_FALSE(none.is_any_zero_copy());
  none.end();
  EXPECT_TRUE(is_open(first_));
}

}  // namespace
}  // namespace lyre::io::dpdk
