#include "stack/io/dpdk/memory.h"

#include <rte_lcore.h>
#include <rte_mempool.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>

#include "stack/base/check.h"
#include "stack/io/dpdk/device_args.h"
#include "stack/io/dpdk/driver_quirks.h"
#include "stack/io/dpdk/mbuf_layout.h"

namespace lyre::io::dpdk {
namespace {

constexpr uint16_t kSmallPayloadBytes = 256;
/// A super-packet fills four such buffers. With smaller ones, what slots cost is most of what
/// packets of the MTU cost; with larger ones, small packets leave more of a slot unused.
constexpr uint32_t kSuperPacketRoomBytes = 16 << 10;
/// virtio's driver posts each buffer with this room for its header, and only the first buffer of a
/// packet has one: later buffers take this many bytes more of payload. They too must fit a block of
/// copies (kCopyBlockBytes).
constexpr uint32_t kVirtioHeaderBytes = 12;
constexpr size_t kBurstMax = 64;

std::string pool_name(const char* kind, uint32_t worker) {
  static std::atomic<uint32_t> made{0};  // names are per process, workers per environment
  return std::string(kind) + std::to_string(worker) + "." + std::to_string(made.fetch_add(1));
}

void init_private(rte_mempool*, void*, void* object, unsigned) {
  new (packet_of(static_cast<rte_mbuf*>(object))) PacketBuf;
  packet_of(static_cast<rte_mbuf*>(object))->slot = PacketBuf::kNoSlot;
}

bool may_get_super_packets(const MemoryOptions& options) {
  return options.has_super_packets ||
         std::any_of(options.devices.begin(), options.devices.end(),
                     [](const auto& device) { return DeviceArgs::parse(device).is_packet_port(); });
}

}  // namespace

uint16_t receive_room_bytes(const MemoryOptions& options) {
  // gve rounds a buffer down to a multiple of it (GVE_RX_BUF_ALIGN_DQO).
  constexpr uint32_t kUnitBytes = 128;
  uint32_t room = options.mtu_bytes + kFrameOverheadBytes;
  bool may_be_virtio = false;  // the address of a NIC does not tell its driver
  for (const std::string& device : options.devices) {
    const DriverQuirks& quirks = quirks_of(DeviceArgs::parse(device).driver());
    room = std::max(room, quirks.rx_room_bytes_min);
    room = std::max(room, options.mtu_bytes + kFrameOverheadBytes + quirks.rx_extra_bytes);
    may_be_virtio |= quirks.super_packets != SuperPackets::kUncut;
  }
  const bool has_super_packets = may_get_super_packets(options);
  if (has_super_packets) room = std::max(room, kSuperPacketRoomBytes);
  uint32_t rounded = (room + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
  if (has_super_packets && may_be_virtio) rounded -= kVirtioHeaderBytes;
  return static_cast<uint16_t>(std::min(rounded + RTE_PKTMBUF_HEADROOM, 65472u));
}

uint32_t copy_packets(const MemoryOptions& options) {
  constexpr uint32_t kCopiesAtLeast = 1024;
  // The address of a NIC does not tell its driver.
  const auto ports = static_cast<uint32_t>(options.devices.size());
  const uint32_t in_rings = ports * (kFreedWithinPackets + kQueuePendingMax);
  return std::min(std::max(kCopiesAtLeast, in_rings), options.tx_packets);
}

Status Memory::make_pools(const MemoryContext& context, uint32_t worker,
                          const MemoryOptions& options) {
  LYRE_CHECK(options.tx_pieces <= kPiecesInPortsMax);
  constexpr uint16_t kHeadroom = RTE_PKTMBUF_HEADROOM;
  const uint16_t frame_room = receive_room_bytes(options);
  PoolOptions shape{
      .pages = context.pages, .is_physical = context.is_physical, .numa_node = options.numa_node};
  struct Plan {
    std::unique_ptr<Pool>* pool;
    const char* kind;
    uint32_t count;
    uint16_t private_bytes;
    uint16_t room_bytes;
  };
  const Plan plans[] = {
      {&rx_, "lyre-rx", options.rx_slots, kPrivateBytes, frame_room},
      {&tx_, "lyre-tx", options.tx_packets, kPrivateBytes,
       static_cast<uint16_t>(kHeadroom + kSmallPayloadBytes)},
      {&pieces_, "lyre-pieces", options.tx_pieces, 0, 0},
      {&copies_, "lyre-copies", copy_packets(options), 0, frame_room},
  };
  for (const Plan& plan : plans) {
    shape.name = pool_name(plan.kind, worker);
    shape.count = plan.count;
    shape.private_bytes = plan.private_bytes;
    shape.room_bytes = plan.room_bytes;
    auto pool = Pool::make(shape);
    if (!pool) return pool.error();
    *plan.pool = std::move(*pool);
    if (context.is_physical) continue;  // on hugepages the pool has looked up the addresses itself
    const PageMemory& memory = (*plan.pool)->memory();
    if (Status status = dma_map_.add(memory.base(), memory.bytes(), memory.page_bytes(),
                                     DmaMap::Need::kRequired);
        !status.ok()) {
      return Error{status.error().code, shape.name + ": " + status.error().text};
    }
  }
  return rx_->memory().seal();
}

/// Slots are numbered in the order of the pool's objects, and found by table: with physical
/// addresses, objects do not cross pages, so there is no constant stride.
void Memory::number_slots() {
  struct Numbering {
    std::vector<PacketBuf*>* table;
  } numbering{&rx_by_slot_};
  rte_mempool_obj_iter(
      rx_->mempool(),
      [](rte_mempool*, void* context, void* object, unsigned index) {
        PacketBuf* packet = packet_of(static_cast<rte_mbuf*>(object));
        packet->slot = index;
        static_cast<Numbering*>(context)->table->push_back(packet);
      },
      &numbering);
  for (uint32_t slot = 0; slot < rx_by_slot_.size(); ++slot) {
    const PacketBuf* packet = rx_by_slot_[slot];
    const auto* at = static_cast<const uint8_t*>(mbuf_of(rx_by_slot_[slot])->buf_addr);
    // At the start, of what this class itself has numbered.
    LYRE_CHECK(packet->slot == slot);
    LYRE_CHECK(at > rx_memory().data() && at < rx_memory().data() + rx_memory().size());
  }
}

Result<std::unique_ptr<Memory>> Memory::make(const MemoryContext& context, uint32_t worker,
                                             const MemoryOptions& options) {
  std::unique_ptr<Memory> memory(new Memory(context));
  if (Status made = memory->make_pools(context, worker, options); !made) return made.error();
  rte_mempool_obj_iter(memory->rx_->mempool(), init_private, nullptr);
  rte_mempool_obj_iter(memory->tx_->mempool(), init_private, nullptr);
  memory->number_slots();
  return memory;
}

Memory::~Memory() {
  for (const std::unique_ptr<Pool>* pool : {&rx_, &tx_, &pieces_, &copies_}) {
    if (*pool) dma_map_.remove((*pool)->memory().base(), (*pool)->memory().bytes());
  }
}

size_t Memory::alloc_tx(std::span<PacketBuf*> out) {
  size_t made = 0;
  while (made < out.size()) {
    rte_mbuf* mbufs[kBurstMax];
    const size_t wanted = std::min(out.size() - made, kBurstMax);
    if (rte_pktmbuf_alloc_bulk(tx_->mempool(), mbufs, static_cast<unsigned>(wanted)) != 0) break;
    for (size_t i = 0; i < wanted; ++i) {
      PacketBuf* packet = packet_of(mbufs[i]);
      describe(*packet, *mbufs[i]);
      out[made++] = packet;
    }
  }
  while (made < out.size()) {  // a pool that is nearly empty may refuse a bulk
    rte_mbuf* mbuf = rte_pktmbuf_alloc(tx_->mempool());
    if (mbuf == nullptr) break;
    describe(*packet_of(mbuf), *mbuf);
    out[made++] = packet_of(mbuf);
  }
  return made;
}

PacketBuf* Memory::alloc_rx() {
  rte_mbuf* mbuf = rte_pktmbuf_alloc(rx_->mempool());
  if (mbuf == nullptr) return nullptr;
  describe(*packet_of(mbuf), *mbuf);
  return packet_of(mbuf);
}

void Memory::release(std::span<PacketBuf* const> packets) {
  size_t at = 0;
  while (at < packets.size()) {
    rte_mbuf* mbufs[kBurstMax];
    const size_t count = std::min(packets.size() - at, kBurstMax);
    for (size_t i = 0; i < count; ++i) mbufs[i] = mbuf_of(packets[at + i]);
    rte_pktmbuf_free_bulk(mbufs, static_cast<unsigned>(count));
    at += count;
  }
}

void Memory::return_cached() {
  for (const std::unique_ptr<Pool>* pool : {&rx_, &tx_, &pieces_, &copies_}) {
    rte_mempool* mempool = (*pool)->mempool();
    rte_mempool_cache_flush(rte_mempool_default_cache(mempool, rte_lcore_id()), mempool);
  }
}

}  // namespace lyre::io::dpdk
