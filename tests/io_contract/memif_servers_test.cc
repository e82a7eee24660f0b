#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stack/io/dpdk/interrupt_thread.h"
#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/log.h"
#include "stack/io/dpdk/memif_listener.h"
#include "tests/io_contract/dpdk_wire.h"
#include "tests/support/busy_interrupt_thread.h"

namespace lyre::io::contract {
namespace {

/// Memif servers that share a path, and clients that the test plays: they say nothing.
class MemifServers : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = environment();
    ASSERT_TRUE(started) << started.error().text;
    dpdk_ = *started;
  }
  ~MemifServers() override {
    ports_.clear();
    for (const int fd : clients_) ::close(fd);
  }
  void open_server(const std::string& option) {
    auto memory = dpdk_->make_memory(0, {.rx_slots = 1024, .tx_packets = 1024});
    ASSERT_TRUE(memory) << memory.error().text;
    memories_.push_back(std::move(*memory));
    PacketMemory* const memories[] = {memories_.back().get()};
    const std::string name = "net_memif" + std::to_string(servers_made_++);
    auto port = dpdk_->open_port({.device = name + ",role=server,socket=" + path_ + "," + option},
                                 memories);
    ASSERT_TRUE(port) << port.error().text;
    ports_.push_back(std::move(*port));
  }
  sockaddr_un address_of(bool is_abstract) const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + (is_abstract ? 1 : 0), path_.c_str(), path_.size());
    return address;
  }
  socklen_t address_bytes() const {
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path_.size());
  }
  /// -1: nobody listens there.
  int connect_client(bool is_abstract = false) {
    const sockaddr_un address = address_of(is_abstract);
    clients_.push_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const int rc =
        ::connect(clients_.back(), reinterpret_cast<const sockaddr*>(&address), address_bytes());
    return rc == 0 ? clients_.back() : -1;
  }
  /// Bytes of the server's next message: it greets first. 0: the connection has ended.
  static ssize_t message_to(int client) {
    constexpr int kPatienceMs = 10'000;
    char message[256];
    pollfd waiting{client, POLLIN, 0};
    return ::poll(&waiting, 1, kPatienceMs) == 1 ? ::recv(client, message, sizeof message, 0) : -1;
  }
  static int64_t listeners() {
    const auto sockets = dpdk::sockets_of(AF_UNIX).value_or(std::vector<int>());
    return std::count_if(sockets.begin(), sockets.end(), [](int fd) {
      int listens = 0;
      socklen_t bytes = sizeof listens;
      return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens == 1;
    });
  }

  io::Backend* dpdk_ = nullptr;
  const std::string path_ = scratch_folder() + "/servers.sock";
  std::vector<std::unique_ptr<PacketMemory>> memories_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<int> clients_;
  static inline int servers_made_ = 0;
};

// Its name was taken for as long as the process lived.
TEST_F(MemifServers, AnAbstractSocketIsOpenedAgain) {
  open_server("socket-abstract=yes");
  ASSERT_EQ(ports_.size(), 1u);
  Port& port = *ports_[0];
  for (int i = 0; i < 3; ++i) {
    port.suspend();
    port.close();
    EXPECT_LT(connect_client(true), 0);
    const Status reopened = port.restart();
    ASSERT_TRUE(reopened) << reopened.error().text;
    port.resume();
    EXPECT_GT(message_to(connect_client(true)), 0);
  }
}

// DPDK's interrupt thread used freed memory when a client connected, or one that had connected
// before asked for a port.
TEST_F(MemifServers, OneThatIsClosedLeavesNoListenerAndNoConnection) {
  const int64_t before = listeners();
  open_server("socket-abstract=no");
  EXPECT_EQ(listeners(), before + 1);
  const int client = connect_client();
  ASSERT_GT(message_to(client), 0);
  ports_.clear();
  EXPECT_EQ(listeners(), before);
  EXPECT_EQ(message_to(client), 0);
}

TEST_F(MemifServers, OneThatIsClosedLeavesTheListenerToAnother) {
  open_server("id=1");
  open_server("id=2");
  ASSERT_EQ(ports_.size(), 2u);
  ports_.erase(ports_.begin());
  EXPECT_GT(message_to(connect_client()), 0);
  open_server("id=1");
  EXPECT_GT(message_to(connect_client()), 0);
  ports_.clear();
  EXPECT_LT(connect_client(), 0);
}

// Each of some twenty waits was in vain.
TEST_F(MemifServers, AnInterruptThreadThatWaitsIsKnown) {
  test::BusyInterruptThread busy;
  ASSERT_TRUE(busy.is_set());
  EXPECT_FALSE(dpdk::let_interrupt_thread_finish());
}

/// What the end of a server's last port logs while DPDK's interrupt thread is busy. The test plays
/// the server: the driver's own would use freed memory afterwards.
class MemifServerOfABusyThread : public MemifServers {
 protected:
  void SetUp() override {
    MemifServers::SetUp();
    const sockaddr_un address = address_of(true);
    listener_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), address_bytes()), 0);
    ASSERT_EQ(::listen(listener_, 4), 0);
    port_.begin(dpdk::DeviceArgs::parse("net_memif9,role=server,socket=" + path_));
  }
  ~MemifServerOfABusyThread() override { ::close(listener_); }
  std::vector<std::string> lines_of_end() {
    std::vector<std::string> lines;
    dpdk::redirect_log([&](dpdk::LogPriority, std::string_view line) { lines.emplace_back(line); });
    {
      test::BusyInterruptThread busy;
      EXPECT_TRUE(busy.is_set());
      port_.end();
    }
    dpdk::redirect_log({});
    return lines;
  }

  int listener_ = -1;
  dpdk::MemifListener port_;
};

// Nothing said why a connection stayed open.
TEST_F(MemifServerOfABusyThread, TellsOfConnectionsThatStay) {
  const int client = connect_client(true);
  const int accepted = ::accept(listener_, nullptr, nullptr);
  ASSERT_GE(accepted, 0);
  const std::vector<std::string> lines = lines_of_end();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find(path_ + ": connections of this memif socket stay"), std::string::npos);
  char byte = 0;
  EXPECT_LT(::recv(client, &byte, 1, MSG_DONTWAIT), 0) << "not shut down";
  ::close(accepted);
}

// A port that nobody had connected to was told as one with connections.
TEST_F(MemifServerOfABusyThread, TellsNothingWithoutConnections) {
  EXPECT_TRUE(lines_of_end().empty());
}

}  // namespace
}  // namespace lyre::io::contract
