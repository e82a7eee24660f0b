#pragma once

#include <cstdint>

#include "stack/base/index_list.h"
#include "stack/base/ip_marking.h"
#include "stack/channel/abi.h"
#include "stack/session/send_queue.h"
#include "stack/tcp/engine.h"

namespace lyre::session {

inline constexpr uint32_t kNoContext = UINT32_MAX;
inline constexpr uint32_t kNoIndex = UINT32_MAX;

/// The rest of a chain of received packets that was taken from the engine: ReceivedPayload.
struct Chain {
  uint32_t slot = kNoIndex;
  uint32_t offset = 0;  ///< of the next byte, in that packet
  uint32_t bytes = 0;
};

/// The application's end of one connection: its client, the data it sent, and the events to report
/// to it. It has the same index as its connection in the engine. Plain data; links are indices.
/// Events for the client are state, not a queue: they are written to its ring when that has room,
/// so a full ring loses nothing.
struct Session {
  uint32_t context = kNoContext;  ///< the owner; kNoContext: a passive open, not announced yet
  uint32_t listener = kNoIndex;   ///< passive: where its SYN arrived, until it is announced
  uint32_t listener_generation = 0;
  uint32_t generation = 0;
  uint64_t cookie = 0;
  Nanos opened_at;
  SendQueue sends;
  Nanos sends_announced_at;
  uint32_t announced_sends = 0;  ///< finished_count that the client was told, its low 32 bits

  uint32_t flow_label = 0;  ///< of its IPv6 packets

  bool is_passive : 1 = false;
  bool is_embryonic : 1 = false;   ///< passive, and its handshake is not complete
  bool was_announced : 1 = false;  ///< the client knows its name
  bool is_shut_down : 1 = false;   ///< after kShutdown: no kSend may follow
  bool is_closed_by_client : 1 = false;
  bool holds_neighbour : 1 = false;  ///< `next_hop` stays in the neighbour cache
  bool waits_for_neighbour : 1 = false;
  bool was_retransmitted : 1 = false;  ///< some segment of it
  bool is_local : 1 = false;           ///< the peer is an address of this host
  bool is_over : 1 = false;            ///< the engine is done with it (or it is in TIME-WAIT)
  bool must_announce_open : 1 = false;
  bool must_announce_progress : 1 = false;
  bool is_told_closed : 1 = false;  ///< the client knows that the peer's window is closed
  bool must_announce_finish : 1 = false;
  bool must_announce_end : 1 = false;
  bool has_readable : 1 = false;
  bool waits_for_port : 1 = false;  ///< its events wait until `port` has freed `fence` packets
  bool is_orphan_in_time_wait : 1 = false;  ///< without a context: which part of its queue it is in
  bool has_repeated_text : 1 = false;       ///< the text that arrived last had arrived before
  bool has_dropped_sends : 1 = false;       ///< some finished sends were not acknowledged
  channel::EndStatus end_status : 4 = channel::EndStatus::kOk;  ///< the last one is 15
  uint8_t port = 0;                                             ///< the port through which it sends
  IpMarking marking;  ///< the port's, unless the client chose another
  uint16_t transmit_client = 0;

  /// Client memory that is given back may be read by the port until so many of its packets, as
  /// Port::queued() counts them, are sent and freed; 0: by none.
  uint64_t fence = 0;

  Chain chain;
  /// Slots that its client has; blocks of the copy area, where nothing is lent to the client.
  uint32_t lent_slots = 0;
  uint64_t copied_tx_bytes = 0;
  uint64_t copied_rx_bytes = 0;
  uint64_t client_copied_tx_bytes = 0;  ///< as the client reports it
  uint64_t client_copied_rx_bytes = 0;  ///< as the client reports it

  IpAddress next_hop;

  /// In its context's list; without a context, in the queue of half-open sessions or of orphans.
  IndexLink owner_link;
  IndexLink dirty_link;     ///< in its context's list of sessions with unreported events, or,
                            ///< while these wait for its port, in the port's queue
  IndexLink transmit_link;  ///< in the transmit queue, at the client `transmit_client`

  bool has_unannounced_sends() const {
    return announced_sends != static_cast<uint32_t>(sends.finished_count);
  }
};
/// The budget of an idle session is 1 KiB: this, tcp::Connection, and 31 bytes of tables (wheel,
/// slabs).
static_assert(sizeof(Session) <= 184);

}  // namespace lyre::session
