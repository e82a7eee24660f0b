#include "stack/io/dpdk/memif_listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "stack/io/dpdk/log.h"
#include "tests/support/no_descriptors_left.h"

namespace lyre::io::dpdk {
namespace {

/// A socket file, or an abstract name. The test does what DPDK's driver does.
class MemifListenerTest : public testing::TestWithParam<bool> {
 protected:
  ~MemifListenerTest() override {
    for (const int fd : opened_) ::close(fd);
    ::unlink(path_.c_str());
    ::unlink(other_path_.c_str());
  }

  int make_socket(int type = SOCK_SEQPACKET) {
    opened_.push_back(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    return opened_.back();
  }
  template <typename Call>
  static bool at(const std::string& path, Call* call, int fd) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + (GetParam() ? 1 : 0), path.c_str(), path.size());
    const size_t bytes = offsetof(sockaddr_un, sun_path) + 1 + path.size();
    return call(fd, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(bytes)) ==
           0;
  }
  /// -1: the name is taken.
  int listen_at(const std::string& path, int type = SOCK_SEQPACKET) {
    const int fd = make_socket(type);
    return at(path, ::bind, fd) && ::listen(fd, 4) == 0 ? fd : -1;
  }
  bool connects(const std::string& path, int type = SOCK_SEQPACKET) {
    return at(path, ::connect, make_socket(type));
  }
  int accept_at(int listener) {
    opened_.push_back(::accept(listener, nullptr, nullptr));
    return opened_.back();
  }
  static bool is_readable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  }
  DeviceArgs device(const std::string& path, const char* role = "server") const {
    return DeviceArgs::parse(std::string("net_memif0,role=") + role + ",socket=" + path);
  }

  const std::string path_ = testing::TempDir() + "lyre-memif-" + std::to_string(::getpid());
  const std::string other_path_ = path_ + "-other";
  std::vector<int> opened_;
  MemifListener port_;
};
INSTANTIATE_TEST_SUITE_P(Named, MemifListenerTest, testing::Bool(), [](const auto& instance) {
  return instance.param ? "WithoutAFile" : "ByAFile";
});

// DPDK's interrupt thread called the driver back with freed memory, and an abstract name stayed
// taken.
TEST_P(MemifListenerTest, TheLastPortOfAPathClosesItsListener) {
  const int listener = listen_at(path_);
  ASSERT_GE(listener, 0);
  port_.begin(device(path_));
  EXPECT_TRUE(connects(path_)) << "and nobody accepts it";
  EXPECT_TRUE(is_readable(listener));
  port_.end();
  EXPECT_FALSE(connects(path_));
  EXPECT_NE(::fcntl(listener, F_GETFD), -1) << "DPDK's interrupt thread still waits for it";
  EXPECT_FALSE(is_readable(listener));
  ::unlink(path_.c_str());
  EXPECT_GE(listen_at(path_), 0);
}

TEST_P(MemifListenerTest, LivesAsLongAsAnotherPortHasThePath) {
  ASSERT_GE(listen_at(path_), 0);
  MemifListener client;
  port_.begin(device(path_));
  client.begin(device(path_, "client"));
  port_.end();
  EXPECT_TRUE(connects(path_));
  port_.begin(device(path_));
  client.end();
  EXPECT_TRUE(connects(path_));
  port_.end();
  EXPECT_FALSE(connects(path_));
}

// The driver had one more use of freed memory when such a client asked for a port.
TEST_P(MemifListenerTest, AConnectionWithoutAPortEnds) {
  const int listener = listen_at(path_);
  ASSERT_GE(listener, 0);
  port_.begin(device(path_));
  ASSERT_TRUE(connects(path_));
  const int client = opened_.back();
  const int accepted = accept_at(listener);
  ASSERT_GE(accepted, 0);
  port_.end();
  char byte = 0;
  EXPECT_EQ(::recv(client, &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_EQ(::recv(accepted, &byte, 1, MSG_DONTWAIT), 0) << "as its peer's end is seen";
}

// They were taken for none: nobody was told of the danger.
TEST_P(MemifListenerTest, ConnectionsThatCannotBeLookedForAreToldOf) {
  const int listener = listen_at(path_);
  ASSERT_GE(listener, 0);
  port_.begin(device(path_));
  ASSERT_TRUE(connects(path_));
  ASSERT_GE(accept_at(listener), 0);
  std::vector<std::string> lines;
  // DPDK's lines come as well.
  redirect_log([&](LogPriority, std::string_view line) {
    if (line.find(path_) != std::string_view::npos) lines.emplace_back(line);
  });
  {
    const test::NoDescriptorsLeft none;
    port_.end();
  }
  redirect_log({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("no descriptor left to look for them"), std::string::npos) << lines[0];
}

TEST_P(MemifListenerTest, OtherSocketsStay) {
  const int other = listen_at(other_path_);
  ASSERT_GE(other, 0);
  ASSERT_TRUE(connects(other_path_));
  const int client = opened_.back();
  ASSERT_GE(accept_at(other), 0);
  ASSERT_GE(listen_at(path_, SOCK_STREAM), 0) << "of a control socket";
  port_.begin(device(path_));
  port_.end();
  port_.end();
  EXPECT_TRUE(connects(other_path_));
  EXPECT_TRUE(connects(path_, SOCK_STREAM));
  char byte = 0;
  EXPECT_EQ(::recv(client, &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_P(MemifListenerTest, PortsOfOtherDriversHaveNone) {
  ASSERT_GE(listen_at(path_), 0);
  port_.begin(DeviceArgs::parse("net_tap0,socket=" + path_));
  port_.end();
  EXPECT_TRUE(connects(path_));
}

}  // namespace
}  // namespace lyre::io::dpdk
