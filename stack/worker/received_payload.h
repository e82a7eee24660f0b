#pragma once

#include <cstdint>
#include <optional>

#include "stack/tcp/engine.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// Received payload between the engine and its readers: one packet, or a chain of packets whose
/// segments were merged. The engine names a chain by its first slot and gives it back whole;
/// sessions take it packet by packet.
/// Thread: the worker.
class ReceivedPayload {
 public:
  explicit ReceivedPayload(WorkerState& state) : state_(state) {}

  /// Releases a packet that is charged to no account, or a chain of them; returns how many there
  /// were.
  void release_slot(uint32_t slot);
  uint32_t release_chain(uint32_t slot);
  /// The same with packets in the account of the session's client.
  void release_kept_slot(uint32_t conn, uint32_t slot) {
    release_slot(slot);
    state_.accounts.remove(state_.session(conn).context, 1);
  }
  uint32_t release_kept_chain(uint32_t conn, uint32_t slot) {
    const uint32_t count = release_chain(slot);
    state_.accounts.remove(state_.session(conn).context, count);
    return count;
  }
  /// The engine keeps a payload of so many packets.
  void on_kept(uint32_t conn, uint32_t packet_count) {
    state_.accounts.add(state_.session(conn).context, packet_count);
  }
  /// The next in-order bytes, never of more than one packet. Empty: nothing more to read.
  /// Owner: the packet passes to the caller; its charge stays until on_app_release(), and it stays
  /// in the account of the session's client.
  std::optional<PayloadSlice> take_slice(uint32_t conn);
  /// Releases what the session could read.
  void discard(uint32_t conn);
  /// What the session is charged for becomes less by so much.
  void return_charge(uint32_t conn, uint32_t charge_bytes);
  /// Releases what came out of order; returns how many packets there were.
  uint32_t release_out_of_order(uint32_t conn);
  /// The same because its client has too many slots: the peer sends it again (RFC 2018 8). The
  /// packets count as dropped.
  void prune(uint32_t conn);
  /// Whether join_small() would find room for a segment that is next in order.
  bool can_join(uint32_t conn, const tcp::SegmentIn& segment) const;
  /// Copies the small payload that the engine has just kept as `run` behind the one before it, if
  /// that is unread and has room, so that it does not hold a slot.
  void join_small(uint32_t conn, uint32_t run);
  /// Releases everything that is held for a connection that is over.
  void release_all(uint32_t conn);

 private:
  uint32_t room_behind(const PayloadSlice& payload) const;
  /// Packets that carried nothing new (the engine trimmed their text): their charge goes back.
  void return_trimmed(uint32_t conn, uint32_t packet_count) {
    if (packet_count > 0) return_charge(conn, packet_count * state_.memory.rx_slot_bytes());
  }

  WorkerState& state_;
};

}  // namespace lyre::worker
