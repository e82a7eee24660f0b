#include "stack/io/dpdk/kernel_interface.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace lyre::io::dpdk {
namespace {

/// A listener that accepts no connection, and a socket connected to it, as a memif client does.
class UnixSockets : public testing::TestWithParam<bool> {
 protected:
  UnixSockets() {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    char* at = address.sun_path + (GetParam() ? 1 : 0);
    std::memcpy(at, name_.c_str(), name_.size());
    // As the driver does it: the zeros after the name are part of an abstract name.
    const auto connects = [&](auto* call, int fd) {
      return call(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    };
    EXPECT_TRUE(connects(::bind, listener_));
    EXPECT_EQ(::listen(listener_, 4), 0);
    EXPECT_TRUE(connects(::connect, client_));
  }
  ~UnixSockets() override {
    if (client_ >= 0) ::close(client_);
    ::close(listener_);
    if (!GetParam()) ::unlink(name_.c_str());
  }

  const std::string name_ = testing::TempDir() + "lyre-wire-" + std::to_string(::getpid());
  int listener_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  int client_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
};
INSTANTIATE_TEST_SUITE_P(Named, UnixSockets, testing::Bool(), [](const auto& instance) {
  return instance.param ? "WithoutAFile" : "ByAFile";
});

TEST_P(UnixSockets, AConnectionIsOneBeforeItIsAcceptedAndAtTheClientsEndOnly) {
  struct stat status = {};
  ASSERT_EQ(::fstat(client_, &status), 0);
  const std::vector<uint64_t> expected{status.st_ino};
  EXPECT_EQ(unix_connections(), expected);
  const int accepted = ::accept(listener_, nullptr, nullptr);
  EXPECT_EQ(unix_connections(), expected);
  ::close(accepted);
  ::close(std::exchange(client_, -1));
  EXPECT_TRUE(unix_connections().empty());
}

}  // namespace
}  // namespace lyre::io::dpdk
