#include "stack/io/dpdk/kernel_interface.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/no_descriptors_left.h"

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
  EXPECT_EQ(unix_connections(), std::vector<uint64_t>());
}

TEST_P(UnixSockets, AreNotKnownWithoutADescriptorToLookBy) {
  const test::NoDescriptorsLeft none;
  EXPECT_EQ(unix_connections(), std::nullopt);
}

// A process at its limit took "no socket to ask by" for "no such interface".
TEST(KernelInterface, IsNotGoneWhereTheKernelCannotBeAsked) {
  const InterfaceSocket socket;
  const uint32_t index = interface_index("lo");
  ASSERT_NE(index, 0u);
  const test::NoDescriptorsLeft none;
  EXPECT_FALSE(is_interface_gone("lo", index, socket));
  EXPECT_EQ(interface_index("lo", socket), index) << "a socket that is there answers";
  EXPECT_TRUE(interface_mac("lo", socket).has_value());
  const InterfaceSocket no_socket;
  EXPECT_EQ(no_socket.status().error().code, EMFILE);
  EXPECT_FALSE(is_interface_gone("lo", index, no_socket));
  EXPECT_FALSE(is_index_gone(index));
}

TEST(KernelInterface, IsGoneWhereTheKernelSaysSo) {
  constexpr uint32_t kNone = INT32_MAX;
  const InterfaceSocket socket;
  EXPECT_TRUE(is_interface_gone("lyre-none", kNone, socket));
  EXPECT_TRUE(is_interface_gone("lo", kNone, socket)) << "it was made anew";
  EXPECT_TRUE(is_interface_gone("a name that no interface can have", kNone, socket));
  EXPECT_TRUE(is_index_gone(kNone));
}

}  // namespace
}  // namespace lyre::io::dpdk
