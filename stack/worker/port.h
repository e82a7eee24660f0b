#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/bounded_vector.h"
#include "stack/base/ip_marking.h"
#include "stack/io/packet_io.h"
#include "stack/worker/port_capture.h"

namespace lyre::worker {

/// Packets of sessions that may wait for a port.
inline constexpr size_t kTxBurstPackets = 64;
/// Room that sessions leave for ARP, echo replies and resets when a port is full.
inline constexpr size_t kTxReservePackets = 16;

/// One queue pair of a port, and the packets that were built and wait for it, in order.
/// A port that took fewer packets than it was offered is full: it is not offered any more until
/// begin_turn(). So is one whose ring has no room for those that it took before.
/// Owner: *borrows* the queue pair. Waiting packets belong to this object until the port takes them
/// or the owner of the memory releases waiting().
/// Thread: the worker.
class Port {
 public:
  Port(io::PacketIo& io, uint32_t mtu_bytes, IpMarking marking = {})
      : io_(&io), capabilities_(io.capabilities()), mtu_bytes_(mtu_bytes), marking_(marking) {}

  const io::IoCapabilities& capabilities() const { return capabilities_; }
  MacAddress mac() const { return capabilities_.mac; }
  uint32_t mtu_bytes() const { return mtu_bytes_; }
  /// Of connections through this port, unless their session has another one.
  IpMarking marking() const { return marking_; }
  /// See io::PacketIo.
  std::optional<uint32_t> receive_queue_of(const FourTuple& tuple) const {
    return io_->receive_queue_of(tuple);
  }
  bool is_link_up() const { return io_->is_link_up(); }
  /// What this queue counted.
  io::IoCounters counters() const { return io_->counters(); }

  /// Fills `out` with received packets, which are the caller's, and returns how many.
  size_t receive(std::span<io::PacketBuf*> out) {
    const size_t count = io_->rx_burst(out);
    if (capture_ != nullptr) [[unlikely]]
      capture_->on_received(out.first(count));
    return count;
  }
  /// Lets the port return what it has finished sending.
  void reclaim() { io_->reclaim(); }
  /// Something waits until the port frees packets that it holds.
  void note_wait() { io_->note_wait(); }

  /// A full port is offered packets again.
  void begin_turn() { is_full_ = false; }
  /// Packets that sessions may queue now: never the reserve. Flushes when that would be none.
  size_t session_room() {
    if (waiting_.size() >= kTxBurstPackets) flush();
    return waiting_.size() < kTxBurstPackets ? kTxBurstPackets - waiting_.size() : 0;
  }
  /// A packet of a session. REQUIRES: session_room() said that there is room for it.
  void queue(io::PacketBuf* packet) { waiting_.push(packet); }
  /// A packet of the worker itself, for which the reserve is kept. False: no room, and the packet
  /// stays the caller's.
  bool try_send(io::PacketBuf* packet) {
    if (waiting_.full()) flush();
    return waiting_.try_push(packet);
  }
  /// Offers what waits to the port; what it does not take goes on waiting. Returns the packets
  /// taken. Without any, the port offers its ring again what that refused.
  size_t flush();
  /// Packets wait here, or the port's ring refused some that the port took: flush() them in a later
  /// turn.
  bool has_unsent() const { return io_has_unsent_ || !waiting_.empty(); }

  /// Packets of queue() and try_send() so far, and how many of them, the first ones, are sent and
  /// freed, as far as the port knows by now. A packet may read client memory until then.
  uint64_t queued() const { return taken_ + waiting_.size(); }
  uint64_t completed() const { return taken_ - io_->tx_held(); }
  /// Packets that the port took and has not freed.
  size_t held() const { return io_->tx_held(); }

  std::span<io::PacketBuf* const> waiting() const { return {waiting_.begin(), waiting_.size()}; }

  /// From now on what is received and sent is copied to `capture`; nullptr: nowhere. *Borrows* it.
  void set_capture(PortCapture* capture) { capture_ = capture; }

 private:
  io::PacketIo* io_;
  io::IoCapabilities capabilities_;
  uint32_t mtu_bytes_;
  IpMarking marking_;
  bool is_full_ = false;
  bool io_has_unsent_ = false;  ///< after the last burst; its queue may have dropped them since
  uint64_t taken_ = 0;          ///< packets that the port took
  PortCapture* capture_ = nullptr;
  BoundedVector<io::PacketBuf*, kTxBurstPackets + kTxReservePackets> waiting_;
};
static_assert(kTxBurstPackets + kTxReservePackets <= kCapturedBurstMax);

}  // namespace lyre::worker
