#pragma once

#include <cstdint>

#include "stack/base/index_list.h"
#include "stack/channel/abi.h"
#include "stack/session/send_queue.h"
#include "stack/tcp/engine.h"

namespace lyre::session {

inline constexpr uint32_t kNoContext = UINT32_MAX;
inline constexpr uint32_t kNoIndex = UINT32_MAX;
inline constexpr uint32_t kManyRegions = UINT32_MAX - 1;

/// What is left of a chain of received packets that was taken from the engine: see payload.cc.
struct Chain {
  uint32_t slot = kNoIndex;
  uint32_t offset = 0;  ///< of the next byte, in that packet
  uint32_t bytes = 0;
};

/// The application's end of one connection: who owns it, what it sent and what it must be told.
/// It has the index of its connection in the engine. Plain data, and lists link by index.
/// What the client must hear is state, not a queue: it is written out when its ring has room, so a
/// full ring loses nothing.
struct Session {
  uint32_t context =
      kNoContext;                ///< the owner; kNoContext: a passive open that nobody heard of yet
  uint32_t listener = kNoIndex;  ///< passive: where its SYN arrived, until it is announced
  uint32_t listener_generation = 0;
  uint32_t generation = 0;
  uint64_t cookie = 0;
  Nanos opened_at;
  SendQueue sends;
  Nanos sends_announced_at;
  uint32_t announced_sends = 0;  ///< finished_count that the client has heard, its low 32 bits

  bool is_passive = false;
  bool is_embryonic = false;  ///< passive, and its handshake is under way
  bool must_announce_open = false;
  bool must_announce_progress = false;
  bool must_announce_finish = false;
  bool must_announce_end = false;
  bool was_announced = false;  ///< the client knows its name
  bool is_shut_down = false;   ///< kShutdown came: no kSend may follow
  bool is_closed_by_client = false;
  bool is_over = false;  ///< the engine is done with it (or it is in TIME-WAIT)
  bool has_readable = false;
  bool was_retransmitted = false;  ///< since the send queue was last empty: see completions.cc
  bool waits_for_neighbour = false;
  bool is_local = false;  ///< the peer is this host
  channel::EndStatus end_status = channel::EndStatus::kOk;
  uint8_t port = 0;  ///< where it leaves

  /// Registered memory that was retransmitted since then, kNoIndex for none, or kManyRegions.
  uint32_t retransmitted_region = kNoIndex;

  Chain chain;
  uint32_t lent_slots = 0;
  uint64_t copied_tx_bytes = 0;
  uint64_t copied_rx_bytes = 0;
  uint64_t client_copied_tx_bytes = 0;  ///< as the client says
  uint64_t client_copied_rx_bytes = 0;  ///< the same

  IpAddress next_hop;

  IndexLink owner_link;     ///< in its context's list; without a context, in the TIME-WAIT queue
  IndexLink dirty_link;     ///< in its context's list of sessions with news
  IndexLink transmit_link;  ///< in the transmit queue

  bool has_unannounced_sends() const {
    return announced_sends != static_cast<uint32_t>(sends.finished_count);
  }
};
/// An idle session has 1 KiB: this, tcp::Connection, and 29 bytes of tables (wheel, slabs).
static_assert(sizeof(Session) <= 184);

}  // namespace lyre::session
