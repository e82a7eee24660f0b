#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rte_ethdev.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "stack/io/dpdk/kernel_interface.h"
#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/frames.h"
#include "tests/support/no_descriptors_left.h"

// Of DPDK, for drivers: their header is not installed everywhere.
struct rte_eth_dev;
extern "C" rte_eth_dev* rte_eth_dev_allocated(const char* name);
extern "C" int rte_eth_dev_callback_process(rte_eth_dev* device, rte_eth_event_type event,
                                            void* argument);

namespace lyre::io::contract {
namespace {

constexpr uint32_t kQueues = 2;

/// Sets or clears "no interrupts" on every ring of every connection of this process, as a peer may.
void write_ring_flags(uint16_t flags) {
  constexpr uint32_t kCookie = 0x3E31F20;
  for (const int fd : dpdk::descriptors_named("/memfd:memif_region")) {
    struct stat status = {};
    ASSERT_EQ(fstat(fd, &status), 0);
    const auto bytes = static_cast<size_t>(status.st_size);
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(base, MAP_FAILED);
    auto* memory = static_cast<uint8_t*>(base);
    for (size_t at = 0; at + 128 <= bytes; at += 64) {
      if (std::memcmp(memory + at, &kCookie, sizeof(kCookie)) == 0) {
        std::memcpy(memory + at + sizeof(kCookie), &flags, sizeof(flags));
      }
    }
    munmap(base, bytes);
  }
}

/// Of each mapping of memory that memif ports share with peers: bytes that are not present.
std::vector<size_t> absent_bytes() {
  std::vector<size_t> absent;
  std::ifstream mappings("/proc/self/smaps");
  size_t size_kib = 0;
  bool is_memif = false;
  for (std::string line; std::getline(mappings, line);) {
    size_t kib = 0;
    if (line.find("/memfd:memif_region") != line.npos) is_memif = true;
    if (std::sscanf(line.c_str(), "Size: %zu kB", &kib) == 1) size_kib = kib;
    if (std::sscanf(line.c_str(), "Rss: %zu kB", &kib) != 1) continue;
    if (is_memif) absent.push_back((size_kib - kib) << 10);
    is_memif = false;
  }
  return absent;
}

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
  Status open(int end, bool is_trusted, uint32_t queues = kQueues) {
    End& opened = ends_[end];
    std::vector<PacketMemory*> memories;
    for (uint32_t worker = 0; worker < queues; ++worker) {
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
    for (uint32_t q = 0; q < ends_[1].memories.size(); ++q) {
      ends_[1].port->queue(q).rx_burst(none);
    }
    return ends_[0].port->is_link_up() && ends_[1].port->is_link_up();
  }
  /// As the daemon does periodically; a connection needs some time.
  bool are_linked_after_restarts(int restarts_max = 100) {
    for (int i = 0; i < restarts_max; ++i) {
      if (ends_[1].port->needs_restart()) (void)restart_at_once(*ends_[1].port);
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
  void send(uint32_t queue, uint32_t id, int from = 0) {
    PacketBuf* packet = nullptr;
    ASSERT_EQ(ends_[from].memories[queue]->alloc_tx({&packet, 1}), 1u);
    const std::vector<uint8_t> bytes = frame(id, 40);
    std::memcpy(packet->data, bytes.data(), bytes.size());
    packet->length = static_cast<uint32_t>(bytes.size());
    packet->wants_checksums = true;
    packet->l3_bytes = kL3Bytes;
    packet->l4_bytes = kL4Bytes;
    ASSERT_TRUE(eventually([&] {
      return ends_[from].port->queue(queue).tx_burst({&packet, 1}) == 1;
    }));
  }
  PacketBuf* receive(uint32_t queue, int at = 1) {
    PacketBuf* packet = nullptr;
    eventually([&] { return ends_[at].port->queue(queue).rx_burst({&packet, 1}) == 1; });
    return packet;
  }
  void receive_and_release(uint32_t queue, int at = 1) {
    PacketBuf* packet = receive(queue, at);
    ASSERT_NE(packet, nullptr);
    ends_[at].memories[queue]->release({&packet, 1});
  }
  /// One turn of a worker: sends as many packets as the port takes at once, and receives.
  void exchange_bursts(uint32_t number, int end) {
    PacketMemory& memory = *ends_[end].memories[number];
    PacketBuf* packets[32];
    const size_t count = memory.alloc_tx(packets);
    for (PacketBuf* packet : std::span(packets).first(count)) {
      const std::vector<uint8_t> bytes = frame(1, 40);
      std::memcpy(packet->data, bytes.data(), bytes.size());
      packet->length = static_cast<uint32_t>(bytes.size());
    }
    const size_t sent = queue(number, end).tx_burst(std::span(packets).first(count));
    memory.release(std::span(packets).first(count).subspan(sent));
    const size_t got = queue(number, end).rx_burst(packets);
    memory.release(std::span(packets).first(got));
  }
  /// Receives until nothing comes any more.
  void drain(int end) {
    for (uint32_t number = 0; number < kQueues; ++number) {
      PacketBuf* packets[32];
      for (size_t got = 1; got > 0;) {
        got = queue(number, end).rx_burst(packets);
        ends_[end].memories[number]->release(std::span(packets).first(got));
      }
    }
  }
  PacketIo& queue(uint32_t number, int end = 1) { return ends_[end].port->queue(number); }
  bool is_told(uint32_t number, int end = 1, int timeout_ms = 4000) {
    pollfd waiting{queue(number, end).wait_fd(), POLLIN, 0};
    return poll(&waiting, 1, timeout_ms) == 1;
  }
  /// Has queue 0 of end 1 announce one packet.
  void earn_trust() {
    queue(0).arm();
    send(0, 1);
    ASSERT_TRUE(is_told(0));
    queue(0).disarm(Woken::kByPackets);
    receive_and_release(0);
  }
  /// A packet arrives that the peer's driver does not announce, and the sleep ends by itself.
  void miss_packet() {
    armed_twice();
    write_ring_flags(1);
    send(0, 2);
    EXPECT_FALSE(is_told(0, 1, 20));
    receive_and_release(0);
    queue(0).disarm(Woken::kByTimeout);
  }
  /// The opinion of a queue that was armed twice and found nothing.
  Arming armed_twice() {
    queue(0).arm();
    return queue(0).arm();
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
  const auto counters = ends_[1].port->device_counters();
  EXPECT_EQ(
      std::find_if(counters.begin(), counters.end(),
                   [](const DeviceCounter& counter) { return counter.name == "rx_good_packets"; }),
      counters.end())
      << "what every driver counts is counted by the port itself";
}

/// A wire whose ends have this.
struct UnequalWire {
  const char* name;
  uint32_t queues[2];
  bool is_trusted[2];
  friend std::ostream& operator<<(std::ostream& out, const UnequalWire& wire) {
    return out << wire.name;
  }
};
class UnequalEnds : public MemifPorts, public ::testing::WithParamInterface<UnequalWire> {};
INSTANTIATE_TEST_SUITE_P(
    Wires, UnequalEnds,
    ::testing::Values(UnequalWire{"server_with_more_queues", {2, 1}, {false, false}},
                      UnequalWire{"client_with_more_queues", {1, 2}, {false, false}},
                      UnequalWire{"server_trusts", {2, 2}, {true, false}},
                      UnequalWire{"client_trusts", {2, 2}, {false, true}}),
    [](const auto& instance) { return std::string(instance.param.name); });

// A queue whose peer has none worked on the ring of queue 0, and one end dropped what the other
// sent without checksums. The server outlives the attempts.
TEST_P(UnequalEnds, HaveNoLink) {
  for (const int end : {0, 1}) {
    const Status opened = open(end, GetParam().is_trusted[end], GetParam().queues[end]);
    ASSERT_TRUE(opened) << opened.error().text;
  }
  EXPECT_FALSE(are_linked_after_restarts(10));
  ends_[1].port.reset();
  ends_[1].memories.clear();
  ASSERT_TRUE(open(1, GetParam().is_trusted[0], GetParam().queues[0]));
  EXPECT_TRUE(are_linked_after_restarts());
}

TEST_F(MemifPorts, NoPacketOfALinkThatCameUpWaitsForAPageFault) {
  open_both(false);
  const std::vector<size_t> before = absent_bytes();
  ASSERT_GE(before.size(), 2u) << "each end maps the memory";
  EXPECT_GT(*std::max_element(before.begin(), before.end()), 0u);
  ends_[0].port->on_link_up();
  for (const size_t bytes : absent_bytes()) EXPECT_EQ(bytes, 0u);
}

// A peer may share more memory than this host has.
TEST_F(MemifPorts, OfALotOfMemoryOnlyAPartIsMadePresent) {
  constexpr size_t kShared = size_t{256} << 20;
  const int fd = memfd_create("memif_region_1", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, kShared), 0);
  void* const shared = mmap(nullptr, kShared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(shared, MAP_FAILED);
  open_both(false);
  ends_[0].port->on_link_up();
  const std::vector<size_t> absent = absent_bytes();
  EXPECT_GE(*std::max_element(absent.begin(), absent.end()), kShared / 2);
  munmap(shared, kShared);
  close(fd);
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
  {
    const test::NoDescriptorsLeft none;
    EXPECT_FALSE(ends_[1].port->needs_restart()) << "its connection cannot be looked for";
  }
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

/// The driver frees the rings in DPDK's interrupt thread when the peer leaves.
TEST_F(MemifPorts, APeerMayLeaveWhileItsPortIsPolled) {
  constexpr int kDepartures = 200;
  open_both(true);
  std::atomic<bool> is_over{false};
  std::thread worker([&] {
    while (!is_over.load()) {
      for (uint32_t queue = 0; queue < kQueues; ++queue) exchange_bursts(queue, 0);
    }
  });
  int links = 0;
  for (int i = 0; i < kDepartures; ++i) {
    if (!restart_at_once(*ends_[1].port)) break;
    if (!eventually([&] {
          exchange_bursts(1, 1);
          return are_linked();
        })) {
      break;
    }
    for (int round = 0; round < 20; ++round) exchange_bursts(1, 1);
    ++links;
  }
  is_over = true;
  worker.join();
  EXPECT_EQ(links, kDepartures);
  drain(0);
  drain(1);
  send(1, 77);
  receive_and_release(1);
}

TEST_F(MemifPorts, EachQueueIsToldOfItsOwnPackets) {
  open_both(false);
  for (const int end : {0, 1}) {
    for (uint32_t number = 0; number < kQueues; ++number) {
      for (uint32_t all = 0; all < kQueues; ++all)
        ASSERT_NE(queue(all, end).arm(), Arming::kPackets);
      send(number, 5, 1 - end);
      EXPECT_TRUE(is_told(number, end)) << "end " << end << " queue " << number;
      EXPECT_FALSE(is_told(1 - number, end, 0)) << "end " << end << " queue " << number;
      for (uint32_t all = 0; all < kQueues; ++all)
        queue(all, end).disarm(all == number ? Woken::kByPackets : Woken::kByTimeout);
      receive_and_release(number, end);
      EXPECT_FALSE(is_told(number, end, 0));
    }
  }
}

TEST_F(MemifPorts, AnUnarmedQueueIsNotTold) {
  open_both(false);
  earn_trust();
  send(0, 2);
  EXPECT_FALSE(is_told(0, 1, 20));
  receive_and_release(0);
}

// A packet that is received after a doorbell had ended the sleep may have arrived after it.
TEST_F(MemifPorts, APacketAfterABellIsNoBrokenWord) {
  open_both(false);
  earn_trust();
  EXPECT_EQ(armed_twice(), Arming::kArmed);
  send(0, 2);
  receive_and_release(0);
  queue(0).disarm(Woken::kByOthers);
  EXPECT_EQ(armed_twice(), Arming::kArmed);
}

TEST_F(MemifPorts, AnAnnouncedPacketClearsThePeerOfAMissedOne) {
  open_both(false);
  for (int i = 0; i < 3; ++i) {
    earn_trust();
    miss_packet();
    EXPECT_EQ(armed_twice(), Arming::kArmed);
    queue(0).disarm(Woken::kByOthers);
  }
}

TEST_F(MemifPorts, APeerThatNeverRingsIsNotTrusted) {
  open_both(false);
  EXPECT_EQ(armed_twice(), Arming::kUnsure) << "before it has rung once";
  queue(0).disarm(Woken::kByTimeout);
  earn_trust();
  miss_packet();
  EXPECT_EQ(armed_twice(), Arming::kArmed) << "it may have arrived when the sleep was over";
  miss_packet();
  EXPECT_EQ(armed_twice(), Arming::kUnsure);
  queue(0).disarm(Woken::kByTimeout);
  earn_trust();
  EXPECT_EQ(armed_twice(), Arming::kArmed);
}

/// A memory file as a peer or a client could have made it.
int fake_region(size_t bytes, int seals, std::vector<size_t> cookies_at) {
  constexpr uint32_t kCookie = 0x3E31F20;
  const uint16_t no_interrupts = 1;
  const int fd = memfd_create("memif_region_0", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  for (const size_t at : cookies_at) {
    EXPECT_EQ(pwrite(fd, &kCookie, sizeof(kCookie), static_cast<off_t>(at)), 4);
    EXPECT_EQ(pwrite(fd, &no_interrupts, 2, static_cast<off_t>(at + 4)), 2);
  }
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

TEST_F(MemifPorts, TheSearchForTheRingWithstandsLies) {
  constexpr size_t kStride = 128 + 512 * 16;
  std::vector<int> lies = {
      fake_region(0, F_SEAL_SHRINK, {}),
      fake_region(4, F_SEAL_SHRINK, {0}),
      fake_region(kStride, F_SEAL_SHRINK, {0}),                          // ends at the second ring
      fake_region(1 << 20, F_SEAL_GROW, {0, kStride, 2 * kStride}),      // could shrink
      fake_region(1 << 20, F_SEAL_SHRINK | F_SEAL_WRITE, {0, kStride}),  // cannot be mapped
      fake_region(1 << 20, F_SEAL_SHRINK,                                // looks perfect
                  {0, kStride, 2 * kStride, 3 * kStride}),
      eventfd(0, EFD_CLOEXEC),  // a read blocks
      eventfd(7, EFD_CLOEXEC | EFD_NONBLOCK)};
  open_both(false);
  lies.push_back(eventfd(0, EFD_CLOEXEC));
  lies.push_back(fake_region(1 << 20, F_SEAL_SHRINK, {0, kStride, 2 * kStride, 3 * kStride}));
  earn_trust();
  for (const int fd : lies) close(fd);
  EXPECT_EQ(armed_twice(), Arming::kArmed);
}

TEST_F(MemifPorts, ANewConnectionIsToldToo) {
  open_both(false);
  earn_trust();
  queue(0).arm();
  ends_[0].port.reset();
  ASSERT_TRUE(eventually([this] { return ends_[1].port->needs_restart(); }));
  EXPECT_EQ(queue(0).arm(), Arming::kUnsure) << "a wire without a peer announces nothing";
  ends_[0].memories.clear();
  ASSERT_TRUE(open(0, false));
  ASSERT_TRUE(are_linked_after_restarts());
  queue(0).disarm(Woken::kByTimeout);
  earn_trust();
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
       {device(0, ",bsize=1000"), device(0, ",zero-copy=yes"), device(0, ",id=4194304"),
        std::string("net_nonsense0"), std::string("0000:ff:1f.7"),
        std::string("net_af_packet900,iface=none-such")}) {
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

/// As a driver reports an event of its device.
void report(const Port& port, rte_eth_event_type event) {
  rte_eth_dev_callback_process(rte_eth_dev_allocated(port.info().name.c_str()), event, nullptr);
}

/// A driver says that its device must be reset; memif's never does, and has no reset of its own.
TEST_F(MemifPorts, APortWhoseDeviceAsksForAResetRunsAfterARestart) {
  open_both(true);
  Port& port = *ends_[1].port;
  report(port, RTE_ETH_EVENT_INTR_RESET);
  EXPECT_EQ(port.state(), PortState::kResetting);
  EXPECT_FALSE(port.is_link_up());
  ASSERT_TRUE(port.needs_restart());
  const Status restarted = restart_at_once(port);
  ASSERT_TRUE(restarted) << restarted.error().text;
  EXPECT_EQ(port.state(), PortState::kRunning);
  EXPECT_TRUE(are_linked_after_restarts());
}

/// A device that was taken away is closed, and opened again where it is there: a memif's always is.
TEST_F(MemifPorts, APortWhoseDeviceIsAwayIsOpenedAgain) {
  open_both(false);
  Port& port = *ends_[1].port;
  report(port, RTE_ETH_EVENT_INTR_RMV);
  EXPECT_EQ(port.state(), PortState::kAway);
  EXPECT_FALSE(port.is_link_up());
  ASSERT_TRUE(port.needs_restart()) << "workers use it";
  port.suspend();
  send(0, 1, 1);  // dropped
  EXPECT_EQ(port.queue(0).tx_held(), 0u);
  const Status restarted = port.restart();
  ASSERT_TRUE(restarted) << restarted.error().text;
  EXPECT_FALSE(port.is_link_up()) << "its queues are suspended";
  port.resume();
  EXPECT_EQ(port.state(), PortState::kRunning);
  ASSERT_TRUE(are_linked_after_restarts());
  for (const int end : {0, 1}) {
    send(1, 90, 1 - end);
    receive_and_release(1, end);
  }
}

}  // namespace
}  // namespace lyre::io::contract
