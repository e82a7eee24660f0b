#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/io_contract/frames.h"
#include "tests/io_contract/wire.h"
#include "tests/support/deadline.h"

namespace lyre::io::contract {

inline constexpr uint32_t kRegion = 7;
inline constexpr auto kPatience = std::chrono::seconds(4);

/// The timeout of every wait here.
class ContractDeadline : public test::Deadline {
 public:
  ContractDeadline() : Deadline(kPatience) {}
};

/// The parameter swaps the ends: one end of a wire may belong to another backend than the one under
/// test.
class IoContract : public ::testing::TestWithParam<bool> {
 protected:
  void open(const WireOptions& options) {
    wire_.reset();
    auto wire = make_wire(options);
    if (!wire && (wire.error().code == EPERM || wire.error().code == ENOTSUP)) {
      GTEST_SKIP() << wire.error().text;
    }
    ASSERT_TRUE(wire) << wire.error().text;
    wire_ = std::move(*wire);
    const ContractDeadline deadline;
    while (!(io(0).is_link_up() && io(1).is_link_up()) && !deadline.is_over()) wire_->pass_time();
    ASSERT_TRUE(io(0).is_link_up() && io(1).is_link_up());
    drain(0);  // some wires accept nothing for an end that has never polled
    drain(1);
  }
  void SetUp() override { open({}); }
  void TearDown() override {
    if (wire_) drain(1);
  }

  PacketIo& io(int end) { return wire_->io(place(end)); }
  PacketMemory& memory(int end) { return wire_->memory(place(end)); }
  static int place(int end) { return GetParam() ? 1 - end : end; }

  PacketBuf* allocate(int end = 0) {
    PacketBuf* packet = nullptr;
    return memory(end).alloc_tx({&packet, 1}) == 1 ? packet : nullptr;
  }

  /// A transmit packet with `bytes` of its own: headers in front, payload after them, as TCP sends
  /// it.
  PacketBuf* packet_with(std::span<const uint8_t> bytes, int end = 0) {
    PacketBuf* packet = allocate(end);
    if (packet == nullptr) return nullptr;
    const size_t front = std::min<size_t>(bytes.size(), kHeaderBytes);
    std::memcpy(packet->push_front(static_cast<uint16_t>(front)), bytes.data(), front);
    const std::span<const uint8_t> rest = bytes.subspan(front);
    if (rest.size() > packet->tailroom) {
      memory(end).release({&packet, 1});
      return nullptr;
    }
    std::memcpy(packet->data + packet->length, rest.data(), rest.size());
    packet->length += static_cast<uint32_t>(rest.size());
    return packet;
  }

  /// A packet of headers and pieces of kRegion, split at `cuts`.
  PacketBuf* gathered(uint32_t id, uint32_t payload_bytes, uint64_t offset, uint32_t piece_count,
                      Family family = Family::kIpv4) {
    PacketBuf* packet = packet_with(headers(id, payload_bytes, family));
    if (packet == nullptr) return nullptr;
    uint32_t left = payload_bytes;
    for (uint32_t i = 0; i < piece_count; ++i) {
      const uint32_t take = i + 1 == piece_count ? left : payload_bytes / piece_count;
      packet->pieces[i] = {kRegion, take, offset};
      offset += take;
      left -= take;
    }
    packet->piece_count = static_cast<uint8_t>(piece_count);
    return packet;
  }

  /// Sends one packet, waiting for room. The packet is released if there is no room within the
  /// timeout.
  bool send(PacketBuf* packet, int end = 0) {
    const ContractDeadline deadline;
    while (!deadline.is_over()) {
      if (io(end).tx_burst({&packet, 1}) == 1) return true;
      io(end).reclaim();
      wire_->pass_time();
    }
    memory(end).release({&packet, 1});
    return false;
  }

  /// Receives until `count` frames of this test have arrived or the timeout expires. The caller
  /// releases them.
  std::vector<PacketBuf*> receive(size_t count, int end = 1) {
    std::vector<PacketBuf*> out;
    const ContractDeadline deadline;
    while (out.size() < count && !deadline.is_over()) {
      if (receive_some(out, end, count - out.size()) == 0) {
        io(1 - end).reclaim();
        wire_->pass_time();
      }
    }
    return out;
  }
  size_t receive_some(std::vector<PacketBuf*>& out, int end, size_t limit = 32) {
    PacketBuf* burst[32];
    const size_t got = io(end).rx_burst({burst, std::min<size_t>(limit, 32)});
    size_t ours = 0;
    for (size_t i = 0; i < got; ++i) {
      if (is_ours(burst[i]->bytes())) {
        out.push_back(burst[i]);
        ++ours;
      } else {
        memory(end).release({&burst[i], 1});
      }
    }
    return ours;
  }
  /// Receives and releases what is still in flight.
  size_t drain(int end) {
    std::vector<PacketBuf*> rest;
    size_t drained = 0;
    for (int quiet = 0; quiet < 20;) {
      rest.clear();
      io(1 - end).reclaim();
      quiet = receive_some(rest, end) == 0 ? quiet + 1 : 0;
      drained += rest.size();
      memory(end).release(rest);
      wire_->pass_time();
    }
    return drained;
  }

  /// Waits until kRegion has no holds: what a worker does before it removes a client's memory.
  void let_go_of_regions() {
    const ContractDeadline deadline;
    while (memory(0).region_holds(kRegion) > 0 && !deadline.is_over()) {
      io(0).reclaim();
      wire_->pass_time();
      if (backend().lets_go_when_idle) continue;
      ASSERT_TRUE(send(packet_with(frame(0, 40))));
      memory(1).release(receive(1));
    }
  }

  static std::vector<uint8_t> bytes_of(PacketBuf* packet) {
    return {packet->data, packet->data + packet->length};
  }
  /// Compares packets, except for the padding of short Ethernet frames.
  static void expect_equal(PacketBuf* got, const std::vector<uint8_t>& want) {
    ASSERT_GE(got->length, want.size());
    ASSERT_LE(got->length, std::max<size_t>(want.size(), 60));
    EXPECT_EQ(0, std::memcmp(got->data, want.data(), want.size()));
  }

  /// Memory as a client shares it: whole pages.
  class ClientMemory {
   public:
    ~ClientMemory() { unmap(); }
    /// Fills the memory with pattern(id).
    void fill(uint32_t id, uint32_t bytes) {
      unmap();
      bytes_ = (bytes + 4095) / 4096 * 4096;
      void* base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      ASSERT_NE(base, MAP_FAILED);
      base_ = static_cast<uint8_t*>(base);
      const std::vector<uint8_t> content = pattern(id, static_cast<uint32_t>(bytes_));
      std::copy(content.begin(), content.end(), base_);
    }
    const uint8_t* data() const { return base_; }
    size_t size() const { return bytes_; }
    RegionMemory region() const { return {base_, bytes_}; }

   private:
    void unmap() {
      if (base_ != nullptr) munmap(base_, bytes_);
    }
    uint8_t* base_ = nullptr;
    size_t bytes_ = 0;
  };

  ClientMemory client_memory_;  // outlives the wire
  std::unique_ptr<Wire> wire_;
};

}  // namespace lyre::io::contract
