#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/bounded_vector.h"
#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"
#include "stack/io/packet.h"
#include "stack/link/neighbours.h"
#include "stack/tcp/segment.h"
#include "stack/worker/tx_stock.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

inline constexpr size_t kLoopPacketsMax = 512;

/// Packets on their way out: buffers, headers, and where a packet goes: to a port, or back to this
/// host. Builds the packets that carry no payload of a session; SegmentOutput builds the others.
/// Thread: the worker.
class PacketOutput {
 public:
  explicit PacketOutput(WorkerState& state) : state_(state), stock_(state.memory) {}
  ~PacketOutput() { state_.memory.release({loop_.begin(), loop_.size()}); }
  PacketOutput(const PacketOutput&) = delete;
  PacketOutput& operator=(const PacketOutput&) = delete;

  /// An empty transmit packet, or nullptr.
  io::PacketBuf* alloc();
  /// Takes back a packet of alloc() that was not used.
  void put_back(io::PacketBuf* packet) { stock_.put_back(packet); }
  /// How many packets alloc() has at hand, after it took some from the memory if there were none.
  size_t ready();

  /// What the IP header has of the connection.
  struct IpFields {
    uint32_t flow_label = 0;
    IpMarking marking;
  };
  void write_headers(io::PacketBuf& packet, const FourTuple& tuple, const tcp::SegmentOut& segment,
                     uint32_t port, MacAddress mac, const IpFields& ip);
  uint16_t next_ip_id() { return ++ip_id_; }
  void count(const tcp::SegmentOut& segment);

  /// Owner: these take the packet. Without room it is dropped and counted.
  void send(uint32_t port, io::PacketBuf* packet);
  /// False: there was no buffer for it.
  [[nodiscard]] bool send_neighbour(const link::NeighbourOut& out);
  /// Sends a segment outside of any session's turn: a RST, or the answer to a SYN by cookie.
  /// `mac`: of the neighbour to send to, where it is known without resolution.
  void send_alone(const FourTuple& tuple, const tcp::SegmentOut& segment,
                  std::optional<MacAddress> mac = std::nullopt);

  /// The peer is this host: the packet is received in the next turn.
  void deliver_locally(io::PacketBuf* packet);
  size_t local_room() const { return loop_.room(); }
  bool has_local() const { return !loop_.empty(); }
  /// What was delivered locally. Owner: the packets pass to the caller. The span is valid until
  /// the next call.
  std::span<io::PacketBuf* const> take_local();

 private:
  void restock();

  WorkerState& state_;
  TxStock stock_;
  BoundedVector<io::PacketBuf*, kLoopPacketsMax> loop_;   ///< not yet received
  BoundedVector<io::PacketBuf*, kLoopPacketsMax> taken_;  ///< of take_local()
  uint16_t ip_id_ = 0;
};

}  // namespace lyre::worker
