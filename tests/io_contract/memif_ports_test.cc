#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/frames.h"

namespace lyre::io::contract {
namespace {

constexpr uint32_t kQueues = 2;

/// Two memif ports with two queues each, in one process.
class MemifPorts : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = environment();
    ASSERT_TRUE(started) << started.error().text;
    dpdk_ = *started;
    const std::string name = "ports" + std::to_string(++made_) + ".sock";
    // The driver keeps one socket object for each path in a process; the first port creates it.
    sockets_[0] = scratch_folder() + "/" + name;
    sockets_[1] = scratch_folder() + "/./" + name;
  }
  void TearDown() override {
    ends_[0].port.reset();
    for (int i = 0; i < 1000 && ends_[1].port && ends_[1].port->is_link_up(); ++i) usleep(100);
    ends_[1].port.reset();
  }
  std::string device(int end, const std::string& more = "") const {
    return "net_memif" + std::to_string(1000 + 2 * made_ + end) +
           (end == 0 ? ",role=server" : ",role=client") + ",socket=" + sockets_[end] + more;
  }
  Status open(int end, bool is_trusted) {
    End& opened = ends_[end];
    std::vector<PacketMemory*> memories;
    for (uint32_t worker = 0; worker < kQueues; ++worker) {
      auto memory = dpdk_->make_memory(worker, {.rx_slots = 1024, .tx_packets = 1024});
      if (!memory) return memory.error();
      opened.memories.push_back(std::move(*memory));
      memories.push_back(opened.memories.back().get());
    }
    auto port = dpdk_->open_port({.device = device(end), .is_trusted = is_trusted}, memories);
    if (!port) return port.error();
    opened.port = std::move(*port);
    return Ok{};
  }
  void open_both(bool is_trusted) {
    for (int end = 0; end < 2; ++end) {
      const Status done = open(end, is_trusted);
      ASSERT_TRUE(done) << done.error().text;
    }
    ASSERT_TRUE(eventually([this] { return are_linked(); }));
  }
  bool are_linked() {
    PacketBuf* none[1];
    for (uint32_t q = 0; q < kQueues; ++q) ends_[1].port->queue(q).rx_burst(none);
    return ends_[0].port->is_link_up() && ends_[1].port->is_link_up();
  }
  /// As the daemon does periodically; a connection needs some time.
  bool are_linked_after_restarts() {
    for (int i = 0; i < 100; ++i) {
      if (ends_[1].port->needs_restart()) (void)ends_[1].port->restart();
      for (int k = 0; k < 100; ++k) {
        if (are_linked()) return true;
        usleep(500);
      }
    }
    return false;
  }
  template <typename Condition>
  static bool eventually(const Condition& condition) {
    for (int i = 0; i < 50'000; ++i) {
      if (condition()) return true;
      usleep(100);
    }
    return false;
  }
  void send(uint32_t queue, uint32_t id) {
    PacketBuf* packet = nullptr;
    ASSERT_EQ(ends_[0].memories[queue]->alloc_tx({&packet, 1}), 1u);
    const std::vector<uint8_t> bytes = frame(id, 40);
    std::memcpy(packet->data, bytes.data(), bytes.size());
    packet->length = static_cast<uint32_t>(bytes.size());
    packet->wants_checksums = true;
    packet->l3_bytes = kL3Bytes;
    packet->l4_bytes = kL4Bytes;
    ASSERT_TRUE(eventually([&] {
      return ends_[0].port->queue(queue).tx_burst({&packet, 1}) == 1;
    }));
  }
  PacketBuf* receive(uint32_t queue) {
    PacketBuf* packet = nullptr;
    eventually([&] { return ends_[1].port->queue(queue).rx_burst({&packet, 1}) == 1; });
    return packet;
  }

  struct End {
    std::vector<std::unique_ptr<PacketMemory>> memories;
    std::unique_ptr<Port> port;
  };
  io::Backend* dpdk_ = nullptr;
  std::string sockets_[2];
  End ends_[2];
  static inline int made_ = 0;
};

TEST_F(MemifPorts, QueueReachesTheQueueOfTheSameNumber) {
  open_both(false);
  for (uint32_t queue = 0; queue < kQueues; ++queue) {
    send(queue, 10 + queue);
    PacketBuf* packet = receive(queue);
    ASSERT_NE(packet, nullptr);
    EXPECT_EQ(id_of(packet->bytes()), 10 + queue);
    EXPECT_TRUE(has_good_tcp_checksum(packet->bytes()));
    EXPECT_EQ(packet->l4_checksum, ChecksumVerdict::kUnknown);
    EXPECT_EQ(ends_[1].memories[queue]->rx_packet(packet->slot), packet);
    ends_[1].memories[queue]->release({&packet, 1});
  }
  EXPECT_EQ(ends_[0].port->info().queue_count, kQueues);
  EXPECT_EQ(ends_[0].port->info().driver, "net_memif");
  EXPECT_FALSE(ends_[0].port->info().does_dma);
  EXPECT_EQ(ends_[0].port->queue(1).counters().software_checksums, 1u);
  EXPECT_EQ(ends_[1].port->rx_missed(), 0u);
}

TEST_F(MemifPorts, ClientWaitsForItsServer) {
  const Status client = open(1, false);
  ASSERT_TRUE(client) << client.error().text;
  EXPECT_TRUE(ends_[1].port->needs_restart());
  PacketBuf* packet = nullptr;
  EXPECT_EQ(ends_[1].port->queue(0).rx_burst({&packet, 1}), 0u);
  ASSERT_EQ(ends_[1].memories[0]->alloc_tx({&packet, 1}), 1u);
  packet->length = 64;
  EXPECT_EQ(ends_[1].port->queue(0).tx_burst({&packet, 1}), 1u);
  EXPECT_EQ(ends_[1].port->queue(0).counters().tx_dropped, 1u);

  const Status server = open(0, false);
  ASSERT_TRUE(server) << server.error().text;
  ASSERT_TRUE(are_linked_after_restarts());
  send(0, 77);
  packet = receive(0);
  ASSERT_NE(packet, nullptr);
  EXPECT_EQ(id_of(packet->bytes()), 77u);
  ends_[1].memories[0]->release({&packet, 1});
}

// A slow server gets one connection, not the remains of several attempts.
TEST_F(MemifPorts, ClientIsPatientWithAServerThatIsThere) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, sockets_[1].c_str(), sockets_[1].size());
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  const Status client = open(1, false);
  ASSERT_TRUE(client) << client.error().text;
  EXPECT_FALSE(ends_[1].port->is_link_up());
  EXPECT_FALSE(ends_[1].port->needs_restart());
  ::close(listener);
  EXPECT_TRUE(eventually([this] { return ends_[1].port->needs_restart(); }));
  ::unlink(sockets_[1].c_str());
}

TEST_F(MemifPorts, ClientFindsItsServerAgain) {
  open_both(false);
  EXPECT_FALSE(ends_[1].port->needs_restart());
  ends_[0].port.reset();
  ASSERT_TRUE(eventually([this] { return ends_[1].port->needs_restart(); }));
  ends_[0].memories.clear();
  const Status server = open(0, false);
  ASSERT_TRUE(server) << server.error().text;
  ASSERT_TRUE(are_linked_after_restarts());
  send(1, 78);
  PacketBuf* packet = receive(1);
  ASSERT_NE(packet, nullptr);
  EXPECT_EQ(id_of(packet->bytes()), 78u);
  ends_[1].memories[1]->release({&packet, 1});
}

TEST_F(MemifPorts, TrustedWireComputesNoChecksums) {
  open_both(true);
  EXPECT_TRUE(ends_[0].port->info().capabilities.tx_checksum_in_hardware);
  send(0, 1);
  PacketBuf* packet = receive(0);
  ASSERT_NE(packet, nullptr);
  EXPECT_FALSE(has_good_tcp_checksum(packet->bytes()));
  EXPECT_EQ(packet->ip_checksum, ChecksumVerdict::kGood);
  EXPECT_EQ(packet->l4_checksum, ChecksumVerdict::kGood);
  EXPECT_EQ(ends_[0].port->queue(0).counters().software_checksums, 0u);
  ends_[1].memories[0]->release({&packet, 1});
}

TEST_F(MemifPorts, SocketOfADeadDaemonIsNoObstacle) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(sockets_[0].size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, sockets_[0].c_str(), sockets_[0].size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
  open_both(false);
}

TEST_F(MemifPorts, WrongOptionsAreRefusedInOneLine) {
  auto memory = dpdk_->make_memory(0, {.rx_slots = 256, .tx_packets = 256});
  ASSERT_TRUE(memory);
  PacketMemory* const memories[] = {memory->get()};
  for (const std::string& wrong :
       {device(0, ",bsize=1000"), device(0, ",zero-copy=yes"), std::string("net_nonsense0"),
        std::string("0000:ff:1f.7"), std::string("net_af_packet900,iface=none-such")}) {
    const auto port = dpdk_->open_port({.device = wrong}, memories);
    ASSERT_FALSE(port) << wrong;
    EXPECT_NE(port.error().code, 0) << wrong;
    EXPECT_FALSE(port.error().text.empty());
    EXPECT_EQ(port.error().text.find('\n'), std::string::npos);
  }
}

TEST_F(MemifPorts, SecondEnvironmentIsRefused) {
  const auto second = dpdk::start_environment({});
  EXPECT_FALSE(second);
}

}  // namespace
}  // namespace lyre::io::contract
