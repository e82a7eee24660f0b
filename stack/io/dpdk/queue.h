#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "stack/io/dpdk/driver_calls.h"
#include "stack/io/dpdk/driver_quirks.h"
#include "stack/io/dpdk/memory.h"
#include "stack/io/dpdk/rx_wait.h"
#include "stack/io/dpdk/sent_marks.h"
#include "stack/io/dpdk/tx_offer.h"
#include "stack/io/dpdk/tx_watch.h"
#include "stack/io/packet_io.h"
#include "stack/io/rss_spread.h"

namespace lyre::io::dpdk {

class InterfaceSocket;
class WatchedPool;

/// The settings that are common to all queues of a port.
struct QueueSetup {
  uint16_t port_id = 0;
  uint16_t queue_id = 0;
  uint8_t index = 0;
  IoCapabilities capabilities;
  const DriverQuirks* quirks = nullptr;
  /// The link of a NIC, as the control thread reads it: a driver may not be asked by two threads at
  /// a time (igb: eth_igb_link_update()). nullptr: the queue asks.
  const std::atomic<bool>* is_nic_up = nullptr;
  TransmitLimits limits{1, 1};
  uint32_t tx_descriptors = 0;      ///< of the transmit ring
  uint32_t super_packet_slots = 0;  ///< that a received super-packet fills at most; 0: none comes
  bool is_rx_trusted = false;       ///< received checksums count as correct
  bool is_tx_trusted = false;       ///< checksums are not completed at all
  bool has_ip_checksum = false;     ///< the device completes IPv4 headers
  bool has_tcp_checksum = false;    ///< the device completes TCP over IPv4
  bool has_ipv6_tcp_checksum = false;
  std::string interface;  ///< the kernel interface under the port; empty: none
  const InterfaceSocket* interface_socket = nullptr;  ///< to ask about it. Owner: the port
  RssSpread spread;                     ///< of received packets over the port's queues
  WatchedPool* watched_pool = nullptr;  ///< see DriverQuirks::loses_rx_ring
  bool is_faulty = false;  ///< the driver frees in order, and does not clear what is marked
};

/// One queue pair of a port.
/// Thread: its worker.
/// Packets that a full transmit ring refuses stay in this object, prepared, and are sent first the
/// next time. For the caller they are taken.
class Queue final : public PacketIo {
 public:
  Queue(const QueueSetup& setup, Memory& memory);
  ~Queue() override;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  size_t rx_burst(std::span<PacketBuf*> out) override;
  size_t tx_burst(std::span<PacketBuf* const> in) override;
  bool has_unsent() const override { return pending_count_ > 0; }
  void reclaim() override;
  void note_wait() override;
  size_t tx_held() const override { return taken_ - freed_; }

  const IoCapabilities& capabilities() const override { return setup_.capabilities; }
  IoCounters counters() const override { return counters_; }
  bool is_link_up() const override;
  std::optional<uint32_t> receive_queue_of(const FourTuple& tuple) const override {
    return setup_.spread.queue_of(tuple);
  }
  int wait_fd() const override { return wait_ == nullptr ? -1 : wait_->fd(); }
  Arming arm() override;
  void disarm(Woken woken) override;

  /// nullptr: the driver cannot tell of packets. Thread: the control thread, while the worker does
  /// not poll.
  void set_wait(std::unique_ptr<RxWait> wait) { wait_ = std::move(wait); }
  /// The device was started again. Thread: as set_wait().
  void on_restart() {
    if (wait_ != nullptr) wait_->on_restart();
  }
  /// The device was closed and opened again. Thread: as set_wait().
  void renew(const QueueSetup& setup);
  /// A queue that is not running receives nothing and drops what it is given.
  /// Thread: as set_wait().
  void start() { is_running_ = true; }
  void suspend();
  /// The driver has given back all packets: it is closed or was reset. REQUIRES: suspend().
  /// Thread: the control thread.
  void on_closed() { is_closed_.store(true, std::memory_order_release); }
  /// Thread: any.
  TxProgress tx_progress() const {
    // Relaxed: lone values, and the reader compares each with its own past.
    return {.freed = freed_shown_.load(std::memory_order_relaxed),
            .waits = waits_.load(std::memory_order_relaxed)};
  }

 private:
  enum class Prepared : uint8_t { kReady, kDropped, kNoBuffer };
  static constexpr size_t kBurstMax = kQueuePendingMax;
  static constexpr uint32_t kUnannouncedMax = 2;

  uint16_t receive(std::span<rte_mbuf*> out);
  uint16_t receive_from_driver(std::span<rte_mbuf*> out);
  bool look_ahead();
  bool receive_one(rte_mbuf* mbuf);
  bool linearise_received(rte_mbuf* mbuf);
  Prepared prepare(PacketBuf& packet, rte_mbuf*& out);
  Prepared drop_one(rte_mbuf& mbuf);
  void request_checksums(PacketBuf& packet, rte_mbuf& mbuf);
  void request_tso(PacketBuf& packet, rte_mbuf& mbuf);
  uint32_t segments_needed(const PacketBuf& packet) const;
  bool attach_pieces(const PacketBuf& packet, rte_mbuf& head);
  rte_mbuf* copy_out(const PacketBuf& packet);
  size_t drop(std::span<PacketBuf* const> in);
  size_t prepare_burst(std::span<PacketBuf* const> in);
  void flush_pending();
  uint16_t burst_pending(uint16_t count);
  void ask_to_free();
  void note_freed();
  void drop_pending();
  void drop_unsendable();

  QueueSetup setup_;
  Memory& memory_;
  std::array<rte_mbuf*, kBurstMax> pending_{};  ///< taken, prepared, and not yet in the ring
  size_t pending_count_ = 0;
  std::array<rte_mbuf*, kBurstMax> seen_{};  ///< received by look_ahead(), not yet by rx_burst()
  uint16_t seen_count_ = 0;
  std::unique_ptr<RxWait> wait_;
  bool is_armed_ = false;
  /// Sleeps that seem to have missed a packet, since the driver announced one. At the maximum the
  /// driver is not trusted to announce packets.
  uint32_t unannounced_ = kUnannouncedMax;
  uint64_t rx_packets_at_arming_ = 0;
  SentMarks marks_;
  TxOffer offer_;
  bool is_unmarked_ = false;  ///< the driver took part of a burst, and nothing after it is marked
  uint64_t taken_ = 0;        ///< packets of tx_burst()
  uint64_t freed_ = 0;        ///< of those, the first ones, that the driver is known to have freed
  bool is_running_ = false;
  std::atomic<bool> is_closed_{false};    ///< what the driver held is free
  std::atomic<uint64_t> freed_shown_{0};  ///< freed_
  std::atomic<uint64_t> waits_{0};        ///< see TxProgress
  bool can_reclaim_ = true;               ///< the driver has tx_done_cleanup
  ConnectedCalls calls_;
  IoCounters counters_;
};

}  // namespace lyre::io::dpdk
