#include "stack/io/sim/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "stack/base/check.h"

namespace lyre::io::sim {
namespace {

constexpr uint32_t kSmallPayloadBytes = 256;

}  // namespace

void Memory::shape(Pool& pool, uint32_t count, uint32_t room_bytes) {
  pool.stride_bytes = (kTxHeadroomBytes + room_bytes + 63) / 64 * 64;
  pool.packets.resize(count);
  pool.is_taken.assign(count, 0);
  pool.free.reserve(count);
  for (uint32_t i = count; i > 0; --i) pool.free.push_back(i - 1);
}

Memory::Memory(const MemoryOptions& options)
    : regions_(kRegionsMax), segment_bytes_(options.segment_bytes) {
  shape(rx_, options.rx_slots, options.frame_bytes);
  shape(tx_, options.tx_packets, kSmallPayloadBytes);
  const size_t rx_bytes = size_t{rx_.stride_bytes} * options.rx_slots;
  rx_fd_ = memfd_create("lyre-sim-rx", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  LYRE_CHECK(rx_fd_ >= 0 && ftruncate(rx_fd_, static_cast<off_t>(rx_bytes)) == 0);
  void* base = mmap(nullptr, rx_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, rx_fd_, 0);
  LYRE_CHECK(base != MAP_FAILED);
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  LYRE_CHECK(fcntl(rx_fd_, F_ADD_SEALS, kSeals) == 0);
  rx_.base = static_cast<uint8_t*>(base);
  tx_bytes_.resize(size_t{tx_.stride_bytes} * options.tx_packets);
  tx_.base = tx_bytes_.data();
  for (uint32_t i = 0; i < rx_.packets.size(); ++i) rx_.packets[i].slot = i;
  for (PacketBuf& packet : tx_.packets) packet.slot = PacketBuf::kNoSlot;
}

Memory::~Memory() {
  munmap(rx_.base, size_t{rx_.stride_bytes} * rx_.packets.size());
  close(rx_fd_);
}

PacketBuf* Memory::take(Pool& pool) {
  if (pool.free.empty()) return nullptr;
  const uint32_t index = pool.free.back();
  pool.free.pop_back();
  pool.is_taken[index] = 1;
  PacketBuf& packet = pool.packets[index];
  const uint32_t slot = packet.slot;
  packet = PacketBuf{};
  packet.slot = slot;
  packet.data = pool.base + size_t{index} * pool.stride_bytes + kTxHeadroomBytes;
  packet.headroom = kTxHeadroomBytes;
  packet.tailroom = static_cast<uint16_t>(pool.stride_bytes - kTxHeadroomBytes);
  return &packet;
}

size_t Memory::alloc_tx(std::span<PacketBuf*> out) {
  size_t made = 0;
  for (PacketBuf*& packet : out) {
    packet = take(tx_);
    if (packet == nullptr) break;
    ++made;
  }
  return made;
}

PacketBuf* Memory::alloc_rx() { return take(rx_); }

void Memory::release(std::span<PacketBuf* const> packets) {
  if (on_release != nullptr) on_release(watcher);
  for (PacketBuf* packet : packets) {
    Pool& pool = packet->slot == PacketBuf::kNoSlot ? tx_ : rx_;
    const auto index = static_cast<size_t>(packet - pool.packets.data());
    LYRE_CHECK(index < pool.packets.size() && pool.is_taken[index] != 0);
    pool.is_taken[index] = 0;
    pool.free.push_back(static_cast<uint32_t>(index));
  }
}

bool Memory::add_region(uint32_t region, const RegionMemory& memory) {
  if (region >= kRegionsMax || memory.base == nullptr || memory.bytes == 0) return false;
  Region& entry = regions_[region];
  if (entry.is_known || entry.holds > 0) return false;
  entry = {memory.base, memory.bytes, 0, true};
  return true;
}

void Memory::remove_region(uint32_t region) {
  if (region < kRegionsMax) regions_[region].is_known = false;
}

uint32_t Memory::region_holds(uint32_t region) const {
  return region < kRegionsMax ? regions_[region].holds : 0;
}

std::span<const uint8_t> Memory::bytes_of(const BufRef& piece) const {
  LYRE_CHECK(piece.region < kRegionsMax);
  const Region& region = regions_[piece.region];
  if (!region.is_known) return {};
  LYRE_CHECK(piece.length <= region.bytes && piece.offset <= region.bytes - piece.length);
  return {region.base + piece.offset, piece.length};
}

void Memory::copy_pool(Pool& to, const Pool& from) {
  LYRE_CHECK(to.packets.size() == from.packets.size() && to.stride_bytes == from.stride_bytes);
  std::memcpy(to.base, from.base, size_t{from.stride_bytes} * from.packets.size());
  to.packets = from.packets;
  to.free = from.free;
  to.is_taken = from.is_taken;
  for (PacketBuf& packet : to.packets) {
    if (packet.data != nullptr) packet.data = to.base + (packet.data - from.base);
  }
}

void Memory::copy_from(const Memory& other) {
  copy_pool(rx_, other.rx_);
  copy_pool(tx_, other.tx_);
  regions_ = other.regions_;
}

}  // namespace lyre::io::sim
