#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "libclient/resources.h"
#include "stack/channel/control.h"
#include "tests/hostile/honest_pair.h"
#include "tests/hostile/sparse_memory.h"
#include "tests/support/deadline.h"

// What one user may take of a real daemon, and that others are served beside it.
namespace lyre::test {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kStranger = 65534;
constexpr int kHangUpTimeoutMs = 30'000;
constexpr int kBacklog = 8;
/// A SYN that finds no place is dropped, and sent again for minutes.
constexpr std::chrono::seconds kConnectPatience{5};
/// More than any limit.
constexpr size_t kEndless = 5000;

/// The sockets that are connected while it exists belong to another user.
class AsStranger {
 public:
  AsStranger() { EXPECT_EQ(::seteuid(kStranger), 0); }
  ~AsStranger() { EXPECT_EQ(::seteuid(0), 0); }
  AsStranger(const AsStranger&) = delete;
  AsStranger& operator=(const AsStranger&) = delete;
};

class HostileLimits : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
    pair_ = std::make_unique<DaemonPair>(std::getenv("LYRE_TEST_LYRED"),
                                         "connections_max = 256\n"
                                         "[clients]\ncontexts_max = 12\ncontexts_per_uid_max = 4\n"
                                         "regions_per_uid_max = 200\n"
                                         "arena_bytes_per_uid_max = 134217728\n"
                                         "registered_bytes_max = 4194304\n"
                                         "registered_bytes_per_uid_max = 6291456\n"
                                         "log_lines_per_minute_max = 50\n");
    const std::filesystem::path socket = pair_->socket(0);
    ASSERT_EQ(::chmod(socket.parent_path().c_str(), 0711), 0);
    ASSERT_EQ(::chmod(socket.c_str(), 0666), 0);
    honest_ = std::make_unique<HonestPair>(*pair_);
  }
  void TearDown() override {
    if (honest_ == nullptr) return;
    EXPECT_TRUE(pair_->is_running(0)) << pair_->log_tail(0);
  }

  /// nullptr: refused.
  Context attach(size_t arena_bytes = kMiB) {
    return test::attach(pair_->socket(0), "limits", arena_bytes);
  }
  client::UniqueFd connect() {
    client::UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    pair_->socket(0).copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    return socket;
  }
  /// True when the daemon answers. Its word to those that it refuses comes instead.
  static bool ask(const client::UniqueFd& socket) {
    channel::InfoRequest request{};
    request.header.type = channel::Control::kInfo;
    request.header.bytes = sizeof request;
    ::send(socket.get(), &request, sizeof request, MSG_NOSIGNAL);
    channel::ControlHeader header{};
    const ssize_t bytes = ::recv(socket.get(), &header, sizeof header, 0);
    return bytes == sizeof header && header.type == channel::Control::kInfoReply;
  }
  static bool await_hang_up(const client::UniqueFd& socket) {
    pollfd waited{.fd = socket.get(), .events = POLLRDHUP, .revents = 0};
    return ::poll(&waited, 1, kHangUpTimeoutMs) == 1;
  }
  bool is_direct(const Context& context, const SparseMemory& memory, std::string& why) {
    lyre_region* region = nullptr;
    EXPECT_EQ(lyre_register(context.get(), memory.data(), memory.bytes(), &region), 0)
        << lyre_last_error();
    const char* text = "";
    const bool out = lyre_region_is_direct(region, &text) != 0;
    why = text;
    return out;
  }
  /// On a port that the daemon chooses. nullptr: refused.
  lyre_listener* listen(const Context& context) {
    lyre_addr address{};
    lyre_addr_parse((pair_->address(0) + ":0").c_str(), &address);
    lyre_listener* listener = nullptr;
    lyre_listen(context.get(), &address, kBacklog, &listener);
    return listener;
  }
  size_t listen_while_possible(const Context& context) {
    size_t count = 0;
    while (count < kEndless && listen(context) != nullptr) ++count;
    return count;
  }
  /// Connections of the client with itself, until one fails.
  size_t connect_while_possible(const Context& context) {
    lyre_listener* listener = listen(context);
    EXPECT_NE(listener, nullptr) << lyre_last_error();
    lyre_addr address{};
    lyre_listener_addr(listener, &address);
    size_t count = 0;
    while (count < kEndless && connects(context, listener, address)) ++count;
    return count;
  }
  static bool connects(const Context& context, lyre_listener* listener, const lyre_addr& address) {
    lyre_session* near = nullptr;
    lyre_session* far = nullptr;
    if (lyre_connect(context.get(), nullptr, &address, &near) != 0) return false;
    const Deadline deadline(kConnectPatience);
    while (lyre_state(near) != LYRE_ENDED && !deadline.is_over()) {
      if (far == nullptr) lyre_accept(listener, &far);
      if (far != nullptr && lyre_state(near) == LYRE_OPEN) return true;
      lyre_poll(context.get(), 1);
    }
    return false;
  }
  size_t count_lines(const std::string& part) { return log_lines_with(*pair_, 0, part); }

  std::unique_ptr<DaemonPair> pair_;
  std::unique_ptr<HonestPair> honest_;
};

TEST_F(HostileLimits, AUidThatTakesEveryContextItCanLeavesThoseOfOthers) {
  std::vector<Context> taken;
  {
    const AsStranger stranger;
    while (Context context = attach()) taken.push_back(std::move(context));
  }
  EXPECT_EQ(taken.size(), 4u);
  EXPECT_THAT(lyre_last_error(), HasSubstr("clients.contexts_per_uid_max"));
  EXPECT_NE(attach(), nullptr) << lyre_last_error();
  honest_->expect_transfer();
}

TEST_F(HostileLimits, AUidThatTakesAllArenasItCanLeavesMemoryToOthers) {
  Context taken;
  {
    const AsStranger stranger;
    taken = attach(96 * kMiB);
    ASSERT_NE(taken, nullptr) << lyre_last_error();
    EXPECT_EQ(attach(64 * kMiB), nullptr);
  }
  EXPECT_THAT(lyre_last_error(), HasSubstr("clients.arena_bytes_per_uid_max"));
  EXPECT_NE(attach(64 * kMiB), nullptr) << lyre_last_error();
  honest_->expect_transfer();
}

TEST_F(HostileLimits, AUidThatTakesEveryConnectionItCanLeavesThoseOfOthers) {
  std::vector<client::UniqueFd> taken;
  bool is_answered = true;
  while (is_answered && taken.size() < 200) {
    const AsStranger stranger;
    client::UniqueFd socket = connect();
    is_answered = ask(socket);
    if (is_answered) taken.push_back(std::move(socket));
  }
  EXPECT_EQ(taken.size(), 4u + 64u);
  EXPECT_NE(attach(), nullptr) << lyre_last_error();
  honest_->expect_transfer();
  // The daemon closes a connection after its answer.
  for (const client::UniqueFd& socket : taken) EXPECT_TRUE(await_hang_up(socket));
}

TEST_F(HostileLimits, AUidThatRegistersAllThatItCanLeavesAddressesToOthers) {
  const SparseMemory memory(4 * kMiB);
  std::vector<Context> taken;
  std::string why;
  {
    const AsStranger stranger;
    for (int i = 0; i < 2; ++i) taken.push_back(attach());
  }
  EXPECT_TRUE(is_direct(taken[0], memory, why)) << why;
  EXPECT_FALSE(is_direct(taken[1], memory, why));
  EXPECT_THAT(why, HasSubstr("clients.registered_bytes_per_uid_max"));
  const Context honest = attach();
  EXPECT_TRUE(is_direct(honest, memory, why)) << why;
  honest_->expect_transfer();
}

TEST_F(HostileLimits, AUidThatTakesEveryRegionItCanLeavesThoseOfOthers) {
  const SparseMemory memory(4096);
  std::vector<Context> taken;
  {
    const AsStranger stranger;
    for (int i = 0; i < 2; ++i) taken.push_back(attach());
  }
  std::string why;
  size_t count = 0;
  while (is_direct(taken[count % 2], memory, why)) ++count;
  EXPECT_EQ(count, 200u);
  EXPECT_THAT(why, HasSubstr("clients.regions_per_uid_max"));
  const Context honest = attach();
  EXPECT_TRUE(is_direct(honest, memory, why)) << why;
  honest_->expect_transfer();
}

TEST_F(HostileLimits, AUidThatTakesEveryListenerItCanLeavesThoseOfOthers) {
  std::vector<Context> taken;
  {
    const AsStranger stranger;
    for (int i = 0; i < 3; ++i) taken.push_back(attach());
  }
  EXPECT_EQ(listen_while_possible(taken[0]), 512u);
  EXPECT_EQ(listen_while_possible(taken[1]), 768u - 512u);
  EXPECT_EQ(listen_while_possible(taken[2]), 0u);
  const Context honest = attach();
  EXPECT_NE(listen(honest), nullptr) << lyre_last_error();
  honest_->expect_transfer();
}

// Each connection is one with itself, and has two places.
TEST_F(HostileLimits, AUidThatTakesEveryTcpConnectionItCanLeavesThoseOfOthers) {
  std::vector<Context> taken;
  {
    const AsStranger stranger;
    for (int i = 0; i < 3; ++i) taken.push_back(attach());
  }
  EXPECT_EQ(connect_while_possible(taken[0]), 192u / 2);
  EXPECT_EQ(connect_while_possible(taken[1]), (224u - 192u) / 2);
  EXPECT_EQ(connect_while_possible(taken[2]), 0u);
  honest_->expect_open();
  honest_->expect_transfer();
}

// 36 576 warnings came in 70 s.
TEST_F(HostileLimits, AUidCannotFillTheLog) {
  for (int i = 0; i < 2000; ++i) {
    const AsStranger stranger;
    const client::UniqueFd socket = connect();
    EXPECT_EQ(::send(socket.get(), "garbage", 7, MSG_NOSIGNAL), 7);
    EXPECT_TRUE(await_hang_up(socket));
    if (i % 500 == 0) honest_->expect_transfer();
  }
  EXPECT_LE(count_lines("uid 65534 gid"), 2 * 50u);  // two minutes, on a slow machine
  EXPECT_GE(count_lines("uid 65534 gid"), 50u);
  EXPECT_GE(count_lines("clients of uid 65534: 50 lines within a minute"), 1u);
  attach();
  EXPECT_GE(count_lines("uid 0 gid 0): attached as context"), 1u);
}

}  // namespace
}  // namespace lyre::test
