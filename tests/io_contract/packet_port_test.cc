#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/frames.h"
#include "tests/io_contract/veth_pair.h"

namespace lyre::io::contract {
namespace {

constexpr uint32_t kMtuBytes = 1500;
constexpr uint32_t kRegion = 3;
constexpr uint32_t kPayloadBytes = 60'000;
constexpr uint16_t kSegmentBytes = kMtuBytes - 40;
constexpr size_t kQueues = 3;

/// Ports of packet sockets at both ends of a veth pair; the right one has
/// several workers. The kernel sends nothing of its own.
class PacketPorts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Status made = make_veth_pair(kMtuBytes); !made) GTEST_SKIP() << made.error().text;
    open_left();
    open_right();
    client_ = pattern(9, kPayloadBytes);
    ASSERT_TRUE(left_memory_->add_region(kRegion, {client_.data(), client_.size()}));
  }
  void TearDown() override {
    left_.reset();
    right_.reset();
  }
  void open_left() {
    const std::string device = "net_af_packet0,iface=left";
    left_memory_ = memory_for(device);
    PacketMemory* const memories[] = {left_memory_.get()};
    auto port = (*environment())->open_port({.device = device}, memories);
    ASSERT_TRUE(port) << port.error().text;
    left_ = std::move(*port);
  }
  void open_right() {
    const std::string device = "net_af_packet1,iface=right";
    std::vector<PacketMemory*> memories;
    for (auto& memory : right_memories_) {
      memory = memory_for(device);
      memories.push_back(memory.get());
    }
    auto port = (*environment())->open_port({.device = device}, memories);
    ASSERT_TRUE(port) << port.error().text;
    right_ = std::move(*port);
  }
  static std::unique_ptr<PacketMemory> memory_for(const std::string& device) {
    auto memory =
        (*environment())
            ->make_memory(
                0,
                {.rx_slots = 1024, .mtu_bytes = kMtuBytes, .devices = {device}, .tx_packets = 256});
    EXPECT_TRUE(memory);
    return std::move(*memory);
  }

  PacketBuf* packet_with(const std::vector<uint8_t>& bytes) {
    PacketBuf* packet = nullptr;
    if (left_memory_->alloc_tx({&packet, 1}) != 1) return nullptr;
    std::copy(bytes.begin(), bytes.end(), packet->data);
    packet->length = static_cast<uint32_t>(bytes.size());
    return packet;
  }
  /// A TSO packet from client memory.
  PacketBuf* large_packet(uint32_t id, Family family) {
    PacketBuf* packet = packet_with(headers(id, kPayloadBytes, family));
    if (packet == nullptr) return nullptr;
    packet->pieces[0] = {kRegion, 1, 0};
    packet->pieces[1] = {kRegion, kPayloadBytes - 1, 1};
    packet->piece_count = 2;
    packet->wants_checksums = true;
    packet->l3_bytes = l3_bytes_of(family);
    packet->l4_bytes = kL4Bytes;
    packet->tso_bytes = kSegmentBytes - 20;
    return packet;
  }
  bool send(PacketBuf* packet) { return left_->queue(0).tx_burst({&packet, 1}) == 1; }
  struct Received {
    uint32_t queue = 0;
    bool is_super_packet = false;
    ChecksumVerdict checksum = ChecksumVerdict::kUnknown;
    std::vector<uint8_t> bytes;
  };
  /// The next packets of any queue, at most `count`; fewer when none come for some time.
  std::vector<Received> receive(size_t count) {
    std::vector<Received> all;
    for (int idle = 0; all.size() < count && idle < 200; ++idle) {
      for (uint32_t queue = 0; queue < kQueues; ++queue) {
        PacketBuf* packet = nullptr;
        while (right_->queue(queue).rx_burst({&packet, 1}) == 1) {
          all.push_back(take(queue, packet));
          idle = 0;
        }
      }
      if (all.size() < count) run("sleep 0.002");
    }
    return all;
  }
  Received take(uint32_t queue, PacketBuf* packet) {
    PacketMemory& memory = *right_memories_[queue];
    Received received{.queue = queue,
                      .is_super_packet = packet->is_super_packet(),
                      .checksum = packet->l4_checksum};
    for (PacketBuf* part = packet; part != nullptr;) {
      received.bytes.insert(received.bytes.end(), part->data, part->data + part->length);
      part = part->next_slot == PacketBuf::kNoSlot ? nullptr : memory.rx_packet(part->next_slot);
    }
    release_chain(memory, packet);
    return received;
  }

  std::vector<uint8_t> client_;
  std::unique_ptr<PacketMemory> left_memory_;
  std::unique_ptr<PacketMemory> right_memories_[kQueues];
  std::unique_ptr<Port> left_;
  std::unique_ptr<Port> right_;
};

TEST_F(PacketPorts, ASuperPacketCrossesAVirtualWireUncut) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    ASSERT_TRUE(send(large_packet(40, family)));
    const std::vector<Received> got = receive(1);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_TRUE(got[0].is_super_packet);
    EXPECT_EQ(got[0].checksum, ChecksumVerdict::kGood) << "it was on no wire";
    const size_t payload_at = got[0].bytes.size() - kPayloadBytes;
    EXPECT_TRUE(std::equal(client_.begin(), client_.end(),
                           got[0].bytes.begin() + static_cast<ptrdiff_t>(payload_at)));
    EXPECT_EQ(id_of(got[0].bytes), 40u);
  }
  EXPECT_EQ(left_memory_->region_holds(kRegion), 0u);
}

TEST_F(PacketPorts, AWireWithoutOffloadsGetsPacketsOfTheMtu) {
  ASSERT_TRUE(run("ethtool -K left tx off tso off gso off"));
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    ASSERT_TRUE(send(large_packet(40, family)));
    const size_t expected = (kPayloadBytes + kSegmentBytes - 21) / (kSegmentBytes - 20);
    const std::vector<Received> got = receive(expected);
    ASSERT_EQ(got.size(), expected);
    std::vector<uint8_t> payload;
    for (const Received& one : got) {
      EXPECT_LE(one.bytes.size(), kMtuBytes + 14);
      EXPECT_TRUE(has_good_tcp_checksum(one.bytes));
      EXPECT_EQ(id_of(one.bytes), 40 + payload.size());
      const auto at = static_cast<ptrdiff_t>(14 + l3_bytes_of(family) + kL4Bytes);
      payload.insert(payload.end(), one.bytes.begin() + at, one.bytes.end());
    }
    EXPECT_EQ(payload, client_);
  }
}

// Azure's driver merges packets and gives no size of their segments: all of them were dropped.
TEST_F(PacketPorts, ALargePacketArrivesWhoeverMergedIt) {
  for (const char* end : {"left", "right"}) {
    ASSERT_TRUE(run(std::string("ip link set ") + end + " mtu 65535"));
  }
  for (const uint32_t payload : {5000u, kPayloadBytes}) {
    PacketBuf* packet = large_packet(40, Family::kIpv4);
    packet->tso_bytes = 0;
    packet->pieces[1].length = payload - 1;
    const std::vector<uint8_t> head = headers(40, payload, Family::kIpv4);
    std::copy(head.begin(), head.end(), packet->data);
    ASSERT_TRUE(send(packet));
    const std::vector<Received> got = receive(1);
    ASSERT_EQ(got.size(), 1u) << payload;
    EXPECT_EQ(got[0].checksum, ChecksumVerdict::kGood);
    EXPECT_TRUE(std::equal(client_.begin(), client_.begin() + payload,
                           got[0].bytes.end() - static_cast<ptrdiff_t>(payload)));
  }
}

std::vector<uint8_t> tagged(std::vector<uint8_t> frame, uint16_t tag) {
  const uint8_t bytes[] = {0x81, 0x00, static_cast<uint8_t>(tag >> 8), static_cast<uint8_t>(tag)};
  frame.insert(frame.begin() + 12, std::begin(bytes), std::end(bytes));
  return frame;
}

// IEEE 802.1Q: VLAN 0 is none. The kernel takes the tag out.
TEST_F(PacketPorts, PacketsWithAPriorityArrive) {
  ASSERT_TRUE(send(packet_with(tagged(frame(1, 40), 0x6000))));
  const std::vector<Received> got = receive(1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].bytes, frame(1, 40));
}

// The kernel takes the tag out of a packet: it would look like one of this network.
TEST_F(PacketPorts, PacketsOfAVlanDoNotArrive) {
  ASSERT_TRUE(send(packet_with(tagged(frame(1, 40), 5))));
  ASSERT_TRUE(send(packet_with(frame(2, 40))));
  const std::vector<Received> got = receive(2);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(id_of(got[0].bytes), 2u);
}

TEST_F(PacketPorts, APortDoesNotReceiveWhatItSends) {
  ASSERT_TRUE(send(packet_with(frame(2, 40))));
  ASSERT_EQ(receive(1).size(), 1u);
  PacketBuf* packet = nullptr;
  EXPECT_EQ(left_->queue(0).rx_burst({&packet, 1}), 0u);
}

// Each of the interface's groups of sockets gets what another program on this machine sends there.
TEST_F(PacketPorts, APortDoesNotReceiveWhatItsMachineSends) {
  const int socket = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  ASSERT_GE(socket, 0);
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = static_cast<int>(if_nametoindex("right"));
  const std::vector<uint8_t> bytes = frame(3, 40);
  ASSERT_EQ(sendto(socket, bytes.data(), bytes.size(), 0,
                   reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            static_cast<ssize_t>(bytes.size()));
  close(socket);
  ASSERT_TRUE(send(packet_with(frame(4, 40))));
  const std::vector<Received> got = receive(2);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(id_of(got[0].bytes), 4u);
}

TEST_F(PacketPorts, APacketThatIsRefusedEachTimeDoesNotKeepTheOthers) {
  if (!run("tc qdisc replace dev left root tbf rate 10mbit burst 500 latency 50ms")) {
    GTEST_SKIP() << "the kernel has no tbf";
  }
  PacketBuf* packets[] = {packet_with(headers(1, 1000)), packet_with(frame(2, 40))};
  packets[0]->pieces[0] = {kRegion, 1000, 0};
  packets[0]->piece_count = 1;
  size_t sent = 0;
  for (int i = 0; i < 1000 && sent < 2; ++i) {
    sent += left_->queue(0).tx_burst(std::span(packets).subspan(sent));
  }
  ASSERT_EQ(sent, 2u);
  const std::vector<Received> got = receive(1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(id_of(got[0].bytes), 2u);
}

/// A frame of ours with these ports.
std::vector<uint8_t> frame_of_ports(uint16_t source, uint16_t target, Family family) {
  std::vector<uint8_t> bytes = frame(1, 40, family);
  uint8_t* tcp = bytes.data() + 14 + l3_bytes_of(family);
  const uint8_t ports[] = {static_cast<uint8_t>(source >> 8), static_cast<uint8_t>(source),
                           static_cast<uint8_t>(target >> 8), static_cast<uint8_t>(target)};
  std::copy(std::begin(ports), std::end(ports), tcp);
  return bytes;
}

/// The connection of such a frame, as its receiver sees it.
FourTuple connection_of(const std::vector<uint8_t>& frame, Family family) {
  const auto address_at = [&](size_t at) {
    IpAddress address = IpAddress::v4(0);
    const size_t bytes = family == Family::kIpv4 ? 4 : 16;
    std::copy_n(frame.begin() + static_cast<ptrdiff_t>(at), bytes,
                address.bytes.end() - static_cast<ptrdiff_t>(bytes));
    return address;
  };
  const size_t sources_at = family == Family::kIpv4 ? 14 + 12 : 14 + 8;
  const size_t bytes = family == Family::kIpv4 ? 4 : 16;
  const size_t ports_at = 14 + l3_bytes_of(family);
  const auto port_at = [&](size_t at) {
    return static_cast<uint16_t>(frame[at] << 8 | frame[at + 1]);
  };
  return {.local = {address_at(sources_at + bytes), port_at(ports_at + 2)},
          .remote = {address_at(sources_at), port_at(ports_at)}};
}

TEST_F(PacketPorts, AConnectionsPacketsComeToTheQueueThatThePortNames) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    std::vector<uint32_t> hits(kQueues);
    for (uint16_t port = 40'000; port < 40'048; ++port) {
      const std::vector<uint8_t> bytes = frame_of_ports(port, 7000, family);
      ASSERT_TRUE(send(packet_with(bytes)));
      const std::vector<Received> got = receive(1);
      ASSERT_EQ(got.size(), 1u);
      const FourTuple tuple = connection_of(bytes, family);
      EXPECT_EQ(right_->queue(0).receive_queue_of(tuple), got[0].queue) << port;
      EXPECT_EQ(right_->queue(0).receive_queue_of({.local = tuple.remote, .remote = tuple.local}),
                got[0].queue);
      ++hits[got[0].queue];
    }
    for (const uint32_t count : hits) EXPECT_GT(count, 6u);
  }
}

TEST_F(PacketPorts, QueuesKeepTheirConnectionsWhenTheInterfaceWasDown) {
  ASSERT_TRUE(run("ip link set right down && ip link set right up"));
  await_interface("right");
  await_interface("left");
  for (uint16_t port = 40'000; port < 40'012; ++port) {
    const std::vector<uint8_t> bytes = frame_of_ports(port, 7000, Family::kIpv4);
    ASSERT_TRUE(send(packet_with(bytes)));
    const std::vector<Received> got = receive(1);
    ASSERT_EQ(got.size(), 1u);
    const FourTuple tuple = connection_of(bytes, Family::kIpv4);
    EXPECT_EQ(right_->queue(0).receive_queue_of(tuple), got[0].queue) << port;
  }
}

TEST_F(PacketPorts, WhatNobodyReadsInTimeIsCounted) {
  for (int burst = 0; burst < 4000 && right_->rx_missed() == 0; ++burst) {
    PacketBuf* packet = large_packet(1, Family::kIpv4);
    if (!send(packet)) left_memory_->release({&packet, 1});
  }
  const uint64_t missed = right_->rx_missed();
  EXPECT_GT(missed, 0u);
  right_->suspend();
  right_->close();
  EXPECT_GE(right_->rx_missed(), missed) << "a total";
}

TEST_F(PacketPorts, OptionsOfRingsAreRefused) {
  PacketMemory* const memories[] = {left_memory_.get()};
  const auto port =
      (*environment())->open_port({.device = "net_af_packet9,iface=left,framecnt=64"}, memories);
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().text, "net_af_packet9: unknown option 'framecnt', allowed: iface");
}

TEST_F(PacketPorts, SaysWhatIsMissing) {
  PacketMemory* const memories[] = {left_memory_.get()};
  const auto open = [&](const std::string& interface, uint32_t mtu_bytes) {
    const auto port =
        (*environment())
            ->open_port({.device = "net_af_packet9,iface=" + interface, .mtu_bytes = mtu_bytes},
                        memories);
    return port ? std::string() : port.error().text;
  };
  EXPECT_EQ(open("nowhere", 1500), "net_af_packet9: there is no interface nowhere");
  EXPECT_EQ(open("left", 9000), "net_af_packet9: MTU 9000 is more than that of left: 1500");
}

}  // namespace
}  // namespace lyre::io::contract
