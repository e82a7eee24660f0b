#include "stack/io/dpdk/packet_sockets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "tests/unit/stack/io/dpdk/own_network.h"

namespace lyre::io::dpdk {
namespace {

/// A burst whose last sendto() left `error`.
auto burst_with(int error) {
  return [error]() -> uint16_t {
    if (error != 0) errno = error;
    return 3;
  };
}

/// In place of a packet socket one that gets an empty datagram for each sendto(), and refuses some
/// while its peer reads none.
class LeftFramesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends_), 0); }
  ~LeftFramesTest() override {
    for (const int fd : ends_) ::close(fd);
  }
  void fill() {
    while (::sendto(ends_[0], nullptr, 0, MSG_DONTWAIT, nullptr, 0) == 0) continue;
    ASSERT_EQ(errno, EAGAIN);
  }
  /// How often frames were offered since the last call.
  int offers() {
    int count = 0;
    for (char byte; ::recv(ends_[1], &byte, 1, MSG_DONTWAIT) == 0;) ++count;
    return count;
  }

  int ends_[2] = {-1, -1};
};

// They waited for the next packet: the end of a message for the retransmission timer.
TEST_F(LeftFramesTest, AreOfferedUntilTheKernelTakesThem) {
  LeftFrames left(ends_[0]);
  for (const int refusal : {ENOBUFS, EAGAIN}) {
    EXPECT_EQ(left.burst(burst_with(refusal)), 3u);
    fill();
    left.send();
    EXPECT_TRUE(left.is_any()) << "they are refused again";
    offers();
    left.send();
    EXPECT_FALSE(left.is_any());
    EXPECT_EQ(offers(), 1);
    left.send();
    EXPECT_EQ(offers(), 0) << "none is left";
  }
}

TEST_F(LeftFramesTest, AreNotThoseOfAnEarlierBurst) {
  LeftFrames left(ends_[0]);
  errno = ENOBUFS;
  EXPECT_EQ(left.burst(burst_with(0)), 3u);
  EXPECT_FALSE(left.is_any()) << "the error is of another call";
  left.burst(burst_with(ENOBUFS));
  left.burst(burst_with(0));
  EXPECT_FALSE(left.is_any()) << "the next burst took them along";
}

// The socket says once, when the interface is up again, that it was down.
TEST_F(LeftFramesTest, AreOfferedOnceMoreAfterTheInterfaceWasDown) {
  LeftFrames left(ends_[0]);
  left.burst(burst_with(ENETDOWN));
  ASSERT_TRUE(left.is_any());
  left.send();
  EXPECT_EQ(offers(), 1);
  EXPECT_FALSE(left.is_any());
  left.burst(burst_with(ENETDOWN));
  ::close(std::exchange(ends_[1], -1));
  left.send();
  EXPECT_FALSE(left.is_any()) << "a worker sleeps while nothing can be sent";
}

TEST_F(LeftFramesTest, AreNoneOfAnotherDriver) {
  LeftFrames left(-1);
  EXPECT_EQ(left.burst(burst_with(ENOBUFS)), 3u);
  EXPECT_FALSE(left.is_any());
}

/// A member of the group, as the sockets of net_af_packet are.
int open_member(uint16_t group) {
  const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
  const int mode_and_group =
      (PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_DEFRAG | PACKET_FANOUT_FLAG_ROLLOVER) << 16 | group;
  EXPECT_EQ(::setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &mode_and_group, sizeof mode_and_group), 0);
  return fd;
}

// Two daemons that had the same number in PID namespaces of their own got half of the packets each.
TEST(FanoutGroup, BelongsToOnePort) {
  const DeviceArgs args = DeviceArgs::parse("net_af_packet0,iface=lo");
  const bool is_made = in_own_network([&] {
    EXPECT_TRUE(check_fanout_group(args)) << "nobody has it";
    const int other = open_member(fanout_group(::getpid() + 1, 1));
    EXPECT_TRUE(check_fanout_group(args)) << "another process has another group";
    const int member = open_member(fanout_group(::getpid(), 1));
    const Status refused = check_fanout_group(args);
    const std::string why = refused ? std::string() : refused.error().text;
    EXPECT_NE(why.find(" is taken by another socket"), std::string::npos) << why;
    EXPECT_TRUE(check_fanout_group(DeviceArgs::parse("net_tap0,iface=lo")));
    ::close(member);
    EXPECT_TRUE(check_fanout_group(args)) << "the port is closed";
    ::close(other);
  });
  if (!is_made) GTEST_SKIP() << "may make no network namespace";
}

TEST(FanoutGroup, IsOfProcessAndInterface) {
  EXPECT_EQ(fanout_group(7, 2), 5u);
  EXPECT_EQ(fanout_group(0x10007, 2), 5u) << "16 bits";
}

}  // namespace
}  // namespace lyre::io::dpdk
