#include "daemon/protocol/client_identity.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace lyre {
namespace {

/// A connection whose peer is a process that has ended, and that its parent has waited for.
class PeerIsGone : public testing::Test {
 protected:
  void SetUp() override {
    const OwnedFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(::bind(listener.get(), plain, sizeof address.sun_family), 0);  // the kernel's choice
    socklen_t bytes = sizeof address;
    ASSERT_EQ(::getsockname(listener.get(), plain, &bytes), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    const pid_t peer = ::fork();
    ASSERT_GE(peer, 0);
    if (peer == 0) {
      const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
      ::_exit(::connect(socket, plain, bytes) == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(peer, &status, 0), peer);
    ASSERT_EQ(status, 0);
    connection_.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(connection_.is_open());
  }
  /// Linux 6.5 or later.
  bool kernel_knows_the_process() const {
    int process = -1;
    socklen_t bytes = sizeof process;
    const int rc = ::getsockopt(connection_.get(), SOL_SOCKET, 77, &process, &bytes);
    const OwnedFd closed(process);
    return rc == 0 || errno != ENOPROTOOPT;
  }

  OwnedFd connection_;
};

// Another process was taken for the peer, if it had the peer's pid by then.
TEST_F(PeerIsGone, ItIsNoProcessThatHasItsPidNow) {
  if (!kernel_knows_the_process()) GTEST_SKIP() << "the kernel has no SO_PEERPIDFD";
  const OwnedFd process = process_of(connection_.get(), ::getpid());
  if (!process.is_open()) return;
  // From Linux 6.16 on there is a pidfd of a process that is gone: it reports the end.
  EXPECT_EQ(::syscall(SYS_pidfd_send_signal, process.get(), 0, nullptr, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(PeerIsGone, ItsCredentialsAreKnown) {
  auto identity = identity_of(connection_.get());
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->uid, ::getuid());
  EXPECT_NE(identity->pid, ::getpid());
}

}  // namespace
}  // namespace lyre
