#pragma once

#include <cstddef>

#include "stack/base/bounded_vector.h"
#include "stack/io/packet.h"
#include "stack/io/packet_io.h"

namespace lyre::worker {

/// Transmit packets taken from the memory at a time.
inline constexpr size_t kTxStockPackets = 64;

/// Empty transmit packets, taken from the packet memory in bulk.
/// Owner: *borrows* the memory; the packets in stock go back to it with this object.
/// Thread: the worker.
class TxStock {
 public:
  explicit TxStock(io::PacketMemory& memory) : memory_(memory) {}
  ~TxStock() { memory_.release({packets_.begin(), packets_.size()}); }
  TxStock(const TxStock&) = delete;
  TxStock& operator=(const TxStock&) = delete;

  size_t size() const { return packets_.size(); }
  /// An empty packet, or nullptr where the stock is used up.
  io::PacketBuf* try_take() {
    if (packets_.empty()) return nullptr;
    io::PacketBuf* packet = packets_.back();
    packets_.pop_back();
    return packet;
  }
  /// The next try_take() gives this packet. REQUIRES: it was taken from here and is still empty.
  void put_back(io::PacketBuf* packet) { packets_.push(packet); }
  /// Takes packets from the memory. False: there are none. REQUIRES: the stock is used up.
  bool try_refill() {
    io::PacketBuf* fresh[kTxStockPackets];
    // The last is taken first, so packets leave in the order in which the memory gave them.
    for (size_t i = memory_.alloc_tx(fresh); i > 0; --i) packets_.push(fresh[i - 1]);
    return !packets_.empty();
  }

 private:
  io::PacketMemory& memory_;
  BoundedVector<io::PacketBuf*, kTxStockPackets> packets_;
};

}  // namespace lyre::worker
