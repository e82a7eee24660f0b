#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/io_contract/io_contract.h"

namespace lyre::io::contract {
namespace {

TEST_P(IoContract, TransmitBufferIsEmptyAndHasRoom) {
  PacketBuf* packet = allocate();
  ASSERT_NE(packet, nullptr);
  EXPECT_EQ(packet->length, 0u);
  EXPECT_GE(packet->headroom, kTxHeadroomBytes);
  EXPECT_GE(packet->tailroom, 256);
  EXPECT_EQ(packet->slot, PacketBuf::kNoSlot);
  EXPECT_EQ(packet->piece_count, 0);
  EXPECT_FALSE(packet->wants_checksums);
  memory(0).release({&packet, 1});
}

TEST_P(IoContract, FrameArrivesByteEqual) {
  for (uint32_t payload : {6u, 7u, 100u, 255u}) {
    const std::vector<uint8_t> sent = frame(payload, payload);
    PacketBuf* packet = packet_with(sent);
    ASSERT_NE(packet, nullptr);
    ASSERT_TRUE(send(packet));
    std::vector<PacketBuf*> got = receive(1);
    ASSERT_EQ(got.size(), 1u);
    expect_equal(got[0], sent);
    memory(1).release(got);
  }
}

TEST_P(IoContract, BothDirectionsWork) {
  const std::vector<uint8_t> sent = frame(1, 50);
  ASSERT_TRUE(send(packet_with(sent, 1), 1));
  std::vector<PacketBuf*> got = receive(1, 0);
  ASSERT_EQ(got.size(), 1u);
  expect_equal(got[0], sent);
  memory(0).release(got);
}

TEST_P(IoContract, PiecesArriveGathered) {
  client_memory_.fill(99, 1 << 16);
  ASSERT_TRUE(memory(0).add_region(kRegion, client_memory_.region()));
  const uint32_t pieces_max = io(0).capabilities().tx_pieces_max;
  ASSERT_GE(pieces_max, 1u);
  uint32_t id = 0;
  for (uint32_t pieces = 1; pieces <= pieces_max; ++pieces) {
    for (uint32_t payload : {61u, 777u, 1460u}) {
      const uint64_t offset = 1 + 3 * id;
      PacketBuf* packet = gathered(++id, payload, offset, pieces);
      ASSERT_NE(packet, nullptr);
      ASSERT_TRUE(send(packet));
      std::vector<PacketBuf*> got = receive(1);
      ASSERT_EQ(got.size(), 1u);
      std::vector<uint8_t> want = headers(id, payload);
      want.insert(want.end(), client_memory_.data() + offset,
                  client_memory_.data() + offset + payload);
      expect_equal(got[0], want);
      memory(1).release(got);
    }
  }
}

TEST_P(IoContract, ChecksumsAreCompleted) {
  client_memory_.fill(5, 8192);
  ASSERT_TRUE(memory(0).add_region(kRegion, client_memory_.region()));
  uint32_t id = 0;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (uint32_t pieces : {0u, 1u, 2u, 3u}) {
      for (uint32_t payload : {101u, 200u}) {
        SCOPED_TRACE(std::to_string(pieces) + " pieces, IP header of " +
                     std::to_string(l3_bytes_of(family)));
        ++id;
        PacketBuf* packet = pieces == 0 ? packet_with(frame(id, payload, family))
                                        : gathered(id, payload, id, pieces, family);
        ASSERT_NE(packet, nullptr);
        packet->wants_checksums = true;
        packet->l3_bytes = l3_bytes_of(family);
        packet->l4_bytes = kL4Bytes;
        ASSERT_TRUE(send(packet));
        std::vector<PacketBuf*> got = receive(1);
        ASSERT_EQ(got.size(), 1u);
        EXPECT_EQ(id_of(got[0]->bytes()), id);
        EXPECT_TRUE(family == Family::kIpv6 || has_good_ip_checksum(got[0]->bytes()));
        EXPECT_TRUE(has_good_tcp_checksum(got[0]->bytes()));
        EXPECT_NE(got[0]->ip_checksum, ChecksumVerdict::kBad);
        EXPECT_NE(got[0]->l4_checksum, ChecksumVerdict::kBad);
        memory(1).release(got);
      }
    }
  }
}

TEST_P(IoContract, ChecksumsAreLeftAloneUnlessWanted) {
  const std::vector<uint8_t> sent = frame(3, 64);
  ASSERT_TRUE(send(packet_with(sent)));
  std::vector<PacketBuf*> got = receive(1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_FALSE(has_good_ip_checksum(got[0]->bytes()));
  expect_equal(got[0], sent);
  memory(1).release(got);
}

TEST_P(IoContract, ShortCountLeavesTheRestWithTheCaller) {
  std::vector<PacketBuf*> batch;
  std::vector<std::vector<uint8_t>> sent;
  uint32_t taken = 0;
  bool was_short = false;
  while (!was_short) {
    batch.clear();
    sent.clear();
    while (batch.size() < 32) {
      const uint32_t id = taken + static_cast<uint32_t>(batch.size());
      PacketBuf* packet = packet_with(frame(id, 40));
      if (packet == nullptr) break;
      packet->wants_checksums = true;
      packet->l3_bytes = kL3Bytes;
      packet->l4_bytes = kL4Bytes;
      batch.push_back(packet);
      sent.push_back(bytes_of(packet));
    }
    if (batch.empty() || taken > 100'000) break;  // this wire always takes everything
    const size_t count = io(0).tx_burst(batch);
    taken += static_cast<uint32_t>(count);
    was_short = count < batch.size();
    for (size_t i = count; i < batch.size(); ++i) {
      EXPECT_EQ(bytes_of(batch[i]), sent[i]);
      EXPECT_TRUE(batch[i]->wants_checksums);
    }
    memory(0).release(std::span(batch).subspan(count));
  }
  EXPECT_GE(io(0).counters().tx_full, was_short ? 1u : 0u);
  if (!backend().is_lossless) return;
  std::vector<PacketBuf*> got = receive(taken);
  ASSERT_EQ(got.size(), taken);
  for (uint32_t i = 0; i < taken; ++i) EXPECT_EQ(id_of(got[i]->bytes()), i);
  memory(1).release(got);
}

TEST_P(IoContract, RegionHoldsReturnToZero) {
  client_memory_.fill(8, 1 << 16);
  ASSERT_TRUE(memory(0).add_region(kRegion, client_memory_.region()));
  EXPECT_EQ(memory(0).region_holds(kRegion), 0u);
  for (uint32_t round = 0; round < 200; ++round) {
    ASSERT_TRUE(send(gathered(round, 600, round, 3)));
    std::vector<PacketBuf*> got = receive(1);
    ASSERT_EQ(got.size(), 1u);
    memory(1).release(got);
  }
  let_go_of_regions();
  EXPECT_EQ(memory(0).region_holds(kRegion), 0u);
}

TEST_P(IoContract, AWireThatIsCutSaysSoAndHoldsNoClientMemory) {
  if (backend().cut == nullptr) GTEST_SKIP() << "does not apply: nothing here takes the link away";
  client_memory_.fill(8, 1 << 16);
  ASSERT_TRUE(memory(0).add_region(kRegion, client_memory_.region()));
  EXPECT_TRUE(io(0).is_link_up());
  ASSERT_EQ(std::system(backend().cut), 0);
  EXPECT_FALSE(io(0).is_link_up());
  // Fills the port's ring and the queue in front of it. A port without a ring drops them.
  for (uint32_t id = 0; !backend().sends_in_the_call || io(0).counters().tx_dropped < 64; ++id) {
    PacketBuf* packet = gathered(id, 600, id, 2);
    ASSERT_NE(packet, nullptr);
    if (io(0).tx_burst({&packet, 1}) == 1) continue;
    memory(0).release({&packet, 1});
    break;
  }
  const bool was_copied = backend().sends_in_the_call || io(0).counters().tx_linearised_bytes > 0;
  EXPECT_EQ(memory(0).region_holds(kRegion) == 0, was_copied);
  io(0).reclaim();
  EXPECT_EQ(memory(0).region_holds(kRegion), 0u);
}

TEST_P(IoContract, RegionsAreTakenAndGivenBack) {
  client_memory_.fill(8, 4096);
  const uint8_t* base = client_memory_.data();
  EXPECT_FALSE(memory(0).add_region(kRegionsMax, {base, 4096}));
  EXPECT_TRUE(memory(0).add_region(kRegionsMax - 1, {base, 4096}));
  EXPECT_FALSE(memory(0).add_region(kRegionsMax - 1, {base, 4096}));
  memory(0).remove_region(kRegionsMax - 1);
  EXPECT_EQ(memory(0).region_holds(kRegionsMax - 1), 0u);
  EXPECT_TRUE(memory(0).add_region(kRegionsMax - 1, {base + 1024, 1024}));
  memory(0).remove_region(kRegionsMax - 1);
}

TEST_P(IoContract, PacketOfARemovedRegionIsNotSent) {
  client_memory_.fill(8, 4096);
  ASSERT_TRUE(memory(0).add_region(kRegion, client_memory_.region()));
  PacketBuf* packet = gathered(1, 600, 0, 2);
  ASSERT_NE(packet, nullptr);
  memory(0).remove_region(kRegion);
  ASSERT_TRUE(send(packet));
  EXPECT_EQ(io(0).counters().tx_dropped, 1u);
  ASSERT_TRUE(send(packet_with(frame(2, 40))));
  std::vector<PacketBuf*> got = receive(1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(id_of(got[0]->bytes()), 2u);
  memory(1).release(got);
}

TEST_P(IoContract, ManyPacketsLeakNothing) {
  constexpr uint32_t kPackets = 100'000;
  client_memory_.fill(8, 1 << 16);
  ASSERT_TRUE(memory(0).add_region(kRegion, client_memory_.region()));
  // One round first: ports keep a ring of buffers from their first packets on.
  const auto lap = [&](uint32_t packets) {
    uint32_t arrived = 0;
    for (uint32_t sent = 0; sent < packets; sent += 16) {
      for (uint32_t i = 0; i < 16; ++i) {
        PacketBuf* packet =
            i % 2 == 0 ? gathered(sent + i, 200, i, 2) : packet_with(frame(sent + i, 30));
        ASSERT_NE(packet, nullptr) << "transmit buffers leak";
        ASSERT_TRUE(send(packet));
      }
      std::vector<PacketBuf*> got = receive(16);
      arrived += static_cast<uint32_t>(got.size());
      memory(1).release(got);
      if (got.size() < 16) break;
    }
    EXPECT_GE(arrived, backend().is_lossless ? packets : packets / 2);
  };
  lap(8192);
  drain(1);
  const uint32_t free_before = memory(1).rx_slots_free();
  lap(kPackets);
  let_go_of_regions();
  drain(1);
  EXPECT_NEAR(memory(1).rx_slots_free(), free_before, 64);
  EXPECT_EQ(memory(0).region_holds(kRegion), 0u);
  const IoCounters counters = io(0).counters();
  EXPECT_GE(counters.tx_packets, kPackets);
  EXPECT_GE(counters.tx_bytes, uint64_t{kPackets} * kHeaderBytes);
  EXPECT_GE(io(1).counters().rx_packets, backend().is_lossless ? kPackets : kPackets / 2);
}

TEST_P(IoContract, SlotNamesThePacket) {
  for (uint32_t id = 0; id < 64; ++id) ASSERT_TRUE(send(packet_with(frame(id, 40))));
  std::vector<PacketBuf*> got = receive(64);
  ASSERT_EQ(got.size(), 64u);
  std::set<uint32_t> slots;
  const std::span<const uint8_t> pool = memory(1).rx_memory();
  for (PacketBuf* packet : got) {
    ASSERT_LT(packet->slot, memory(1).rx_slot_count());
    EXPECT_EQ(memory(1).rx_packet(packet->slot), packet);
    EXPECT_TRUE(slots.insert(packet->slot).second) << "two packets in one slot";
    EXPECT_GE(packet->data, pool.data());
    EXPECT_LE(packet->data + packet->length, pool.data() + pool.size());
    EXPECT_LE(packet->length, memory(1).rx_slot_bytes());
  }
  memory(1).release(got);
}

TEST_P(IoContract, LocalPacketComesFromTheReceivePool) {
  const uint32_t free_before = memory(0).rx_slots_free();
  PacketBuf* packet = memory(0).alloc_rx();
  ASSERT_NE(packet, nullptr);
  EXPECT_EQ(memory(0).rx_packet(packet->slot), packet);
  EXPECT_EQ(packet->length, 0u);
  EXPECT_GE(packet->tailroom, 1500);
  EXPECT_EQ(memory(0).rx_slots_free() + 1, free_before);
  memory(0).release({&packet, 1});
  EXPECT_EQ(memory(0).rx_slots_free(), free_before);
}

/// What a thread counts that has taken no packet.
uint32_t slots_free_elsewhere(const PacketMemory& memory) {
  uint32_t count = 0;
  std::thread([&] { count = memory.rx_slots_free(); }).join();
  return count;
}

TEST_P(IoContract, SlotsThatAThreadKeptAreFreeForOthers) {
  memory(0).return_cached();
  const uint32_t free_before = slots_free_elsewhere(memory(0));
  PacketBuf* packet = memory(0).alloc_rx();
  ASSERT_NE(packet, nullptr);
  memory(0).release({&packet, 1});
  memory(0).return_cached();
  EXPECT_EQ(slots_free_elsewhere(memory(0)), free_before);
}

/// The accesses of a client. Returns 0 when the bytes at `offset` are `want` and the memory cannot
/// be written.
int look_from_outside(int fd, size_t pool_bytes, size_t offset, const std::vector<uint8_t>& want) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int read_only = open(path.c_str(), O_RDONLY);
  if (read_only < 0) return 1;
  void* base = mmap(nullptr, pool_bytes, PROT_READ, MAP_SHARED, read_only, 0);
  if (base == MAP_FAILED) return 2;
  if (std::memcmp(static_cast<uint8_t*>(base) + offset, want.data(), want.size()) != 0) return 3;
  if (mprotect(base, pool_bytes, PROT_READ | PROT_WRITE) == 0) return 4;
  for (const int descriptor : {fd, open(path.c_str(), O_RDWR)}) {
    if (descriptor < 0) continue;
    if (mmap(nullptr, pool_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) !=
        MAP_FAILED) {
      return 5;
    }
    if (ftruncate(descriptor, 0) == 0) return 6;
    if (write(descriptor, "x", 1) == 1) return 7;
  }
  return 0;
}

TEST_P(IoContract, AnotherProcessReadsThePoolAndCannotWriteIt) {
  const std::vector<uint8_t> sent = frame(77, 100);
  ASSERT_TRUE(send(packet_with(sent)));
  std::vector<PacketBuf*> got = receive(1);
  ASSERT_EQ(got.size(), 1u);
  const auto offset = static_cast<size_t>(got[0]->data - memory(1).rx_memory().data());
  const pid_t child = fork();
  if (child == 0) {
    _exit(look_from_outside(memory(1).rx_memory_fd(), memory(1).rx_memory().size(), offset, sent));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  memory(1).release(got);
}

TEST_P(IoContract, FramesOfTheMtuArrive) {
  for (uint32_t mtu : {1500u, 3000u, 9000u}) {
    if (mtu > backend().mtu_bytes_max) continue;
    open({.mtu_bytes = mtu});
    if (HasFatalFailure() || IsSkipped()) return;
    EXPECT_EQ(io(0).capabilities().mtu_bytes, mtu);
    client_memory_.fill(mtu, 1 << 16);
    ASSERT_TRUE(memory(0).add_region(kRegion, client_memory_.region()));
    const uint32_t payload = mtu - kL3Bytes - kL4Bytes;
    for (uint32_t id = 0; id < 50; ++id) {
      PacketBuf* packet = gathered(id, payload, id, 2);
      packet->wants_checksums = true;
      packet->l3_bytes = kL3Bytes;
      packet->l4_bytes = kL4Bytes;
      ASSERT_TRUE(send(packet));
      std::vector<PacketBuf*> got = receive(1);
      ASSERT_EQ(got.size(), 1u) << "MTU " << mtu;
      EXPECT_EQ(got[0]->length, mtu + 14);
      EXPECT_TRUE(has_good_tcp_checksum(got[0]->bytes()));
      EXPECT_EQ(0, std::memcmp(got[0]->data + kHeaderBytes, client_memory_.data() + id, payload));
      memory(1).release(got);
    }
  }
}

TEST_P(IoContract, ExhaustedReceivePoolRecovers) {
  std::vector<PacketBuf*> hoard;
  const uint32_t slots = memory(1).rx_slot_count();
  uint32_t id = 0;
  // Keeps all received packets until nothing more arrives; the sender must be unaffected.
  for (uint32_t idle = 0; idle < 50 && id < 4 * slots;) {
    PacketBuf* packet = packet_with(frame(id++, 40));
    if (packet != nullptr && io(0).tx_burst({&packet, 1}) == 0) memory(0).release({&packet, 1});
    io(0).reclaim();
    const size_t got = receive_some(hoard, 1);
    idle = got == 0 ? idle + 1 : 0;
    if (got == 0) wire_->pass_time();
  }
  EXPECT_LE(hoard.size(), slots);
  EXPECT_GE(hoard.size(), slots / 4);
  memory(1).release(hoard);
  drain(1);
  for (uint32_t round = 0; round < 100; ++round) {
    ASSERT_TRUE(send(packet_with(frame(1'000'000 + round, 40))));
    std::vector<PacketBuf*> got = receive(1);
    ASSERT_EQ(got.size(), 1u);
    memory(1).release(got);
  }
}

std::vector<bool> directions() {
  return backend().has_two_of_ours ? std::vector<bool>{false} : std::vector<bool>{false, true};
}

std::string direction_name(const ::testing::TestParamInfo<bool>& direction) {
  return std::string(backend().name) + (direction.param ? "_receives" : "");
}

INSTANTIATE_TEST_SUITE_P(Io, IoContract, ::testing::ValuesIn(directions()), direction_name);

}  // namespace
}  // namespace lyre::io::contract
