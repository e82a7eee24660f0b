#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "libclient/attach.h"
#include "libclient/include/lyre/lyre.h"

// What the commands of `lyre` ask at the moment at which an upgrade replaces the daemon.
namespace lyre::client {
namespace {

enum class Leaves { kUnread, kRead };

/// Hangs up on its first client, as a daemon that leaves in an upgrade. The one that takes its
/// place refuses what the next ones ask for.
class LeavingDaemon {
 public:
  explicit LeavingDaemon(Leaves leaves)
      : leaves_(leaves), listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    char folder[] = "/tmp/lyre_libclient_XXXXXX";
    folder_ = ::mkdtemp(folder);
    path_ = folder_ + "/lyred.sock";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(0, ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address));
    EXPECT_EQ(0, ::listen(listener_.get(), 4));
    server_ = std::thread([this] { serve(); });
  }
  ~LeavingDaemon() {
    ::shutdown(listener_.get(), SHUT_RDWR);  // accept() fails
    server_.join();
    std::filesystem::remove_all(folder_);
  }
  LeavingDaemon(const LeavingDaemon&) = delete;
  LeavingDaemon& operator=(const LeavingDaemon&) = delete;

  const char* path() const { return path_.c_str(); }
  int clients() const { return clients_; }

 private:
  void serve() {
    for (;;) {
      const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.is_open()) return;
      const bool is_left = ++clients_ == 1;
      std::array<uint8_t, 512> request;
      const int flags = is_left && leaves_ == Leaves::kUnread ? MSG_PEEK : 0;
      channel::ControlHeader header;
      EXPECT_LE(static_cast<ssize_t>(sizeof header),
                ::recv(client.get(), request.data(), request.size(), flags));
      std::memcpy(static_cast<void*>(&header), request.data(), sizeof header);
      if (!is_left) answer(client.get(), header.type);
    }
  }
  static void answer(int client, channel::Control asked) {
    if (asked == channel::Control::kInfo) {
      refuse<channel::InfoReply>(client, channel::Control::kInfoReply);
    } else if (asked == channel::Control::kCapture) {
      refuse<channel::CaptureReply>(client, channel::Control::kCaptured);
    } else {
      refuse<channel::UpgradeReply>(client, channel::Control::kUpgradeReply);
    }
  }
  template <typename Reply>
  static void refuse(int client, channel::Control type) {
    Reply reply{};
    reply.header.type = type;
    reply.header.bytes = sizeof reply;
    reply.error = EBUSY;
    std::strcpy(reply.text, "not now");
    EXPECT_EQ(static_cast<ssize_t>(sizeof reply),
              ::send(client, &reply, sizeof reply, MSG_NOSIGNAL));
  }

  const Leaves leaves_;
  std::string folder_, path_;
  UniqueFd listener_;
  std::atomic<int> clients_{0};
  std::thread server_;
};

int ask_for_info(const char* path) {
  UniqueFd descriptor;
  uint64_t stats_bytes = 0;
  return ask_info(path, descriptor, stats_bytes);
}

int ask_for_packets(const char* path) {
  UnforkedFd control;
  UniqueFd descriptor;
  channel::CaptureReply reply{};
  return ask_capture(path, "rail0", 96, control, descriptor, reply);
}

int ask_for_upgrade(const char* path) {
  channel::UpgradeReply reply{};
  return ask_upgrade(path, reply);
}

TEST(Operator, IsAnsweredByTheDaemonThatTookThePlaceOfTheOneThatHungUp) {
  for (const Leaves leaves : {Leaves::kUnread, Leaves::kRead}) {
    for (const auto ask : {ask_for_info, ask_for_packets}) {
      LeavingDaemon daemon(leaves);
      EXPECT_EQ(LYRE_E_NORESOURCES, ask(daemon.path()));
      EXPECT_STREQ("the daemon refused: not now", lyre_last_error());
      EXPECT_EQ(2, daemon.clients());
    }
  }
  LeavingDaemon daemon(Leaves::kUnread);
  EXPECT_EQ(LYRE_E_NORESOURCES, ask_for_upgrade(daemon.path()));
  EXPECT_EQ(2, daemon.clients());
}

// A daemon that ends in the upgrade that it was asked for is not asked for another one when a
// service manager has started it again.
TEST(Operator, AsksOnceForAnUpgradeThatMayHaveBegun) {
  LeavingDaemon daemon(Leaves::kRead);
  EXPECT_EQ(LYRE_E_DAEMON, ask_for_upgrade(daemon.path()));
  EXPECT_STREQ("no daemon answers there: it hung up (does lyred still run?)", lyre_last_error());
  EXPECT_EQ(1, daemon.clients());
}

TEST(Operator, HearsAtOnceThatNoDaemonIsThere) {
  for (const auto ask : {ask_for_info, ask_for_packets, ask_for_upgrade}) {
    EXPECT_EQ(LYRE_E_DAEMON, ask("/nonexistent/lyred.sock"));
    EXPECT_STREQ("/nonexistent/lyred.sock: no daemon listens there (is lyred running?)",
                 lyre_last_error());
  }
}

}  // namespace
}  // namespace lyre::client
