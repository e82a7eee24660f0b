#pragma once

#include <cstdint>

#include "libclient/errors.h"
#include "libclient/fifo.h"
#include "libclient/include/lyre/lyre.h"
#include "stack/channel/abi.h"

namespace lyre::client {

/// What has events: a place in the context's list for lyre_next_event().
struct Waitable {
  Waitable* next_ready = nullptr;
  Waitable* previous_ready = nullptr;
  uint32_t happened = 0;  ///< lyre_event_bits; 0: not in the list
  bool is_listener = false;
};

/// A send that is not done: the daemon may read its bytes.
struct SentBlock {
  uint64_t offset;  ///< in the arena, or in the region
  uint64_t tag;
  uint32_t bytes;
  uint32_t region;  ///< 0: the arena; else the name of registered memory
};

/// Sends of all sessions of a context.
struct SendTotals {
  uint64_t under_way = 0;  ///< not done
  int loss = 0;  ///< the first error that ended a closed session with sends under way; 0: none
};

/// Payload copied by this process, not reported to the daemon yet.
struct UntoldCopies {
  uint64_t tx_bytes = 0;
  uint64_t rx_bytes = 0;
};
/// How much of it one send or one released slot reports: ten slots share one entry's 32 bits.
constexpr uint32_t to_tell(uint64_t untold_bytes) {
  constexpr uint32_t kMost = UINT32_MAX / lyre::channel::kReleaseSlotsMax;
  return untold_bytes < kMost ? static_cast<uint32_t>(untold_bytes) : kMost;
}

/// Received bytes of one slot that the user has not taken.
struct UnreadSlice {
  const uint8_t* data;
  uint32_t bytes;
  uint32_t slot;
};

}  // namespace lyre::client

/// A session of the client. After lyre_close() it stays until the daemon has reported its end: then
/// no completion can name it, and its blocks are free. Thread: the context's.
struct lyre_session : lyre::client::Waitable {
  explicit lyre_session(lyre_context* owner) : context(owner) {}

  bool is_unaccepted() const { return listener != nullptr; }
  /// Its error, with its text for lyre_last_error().
  int fail() const {
    return lyre::client::fail_static(error,
                                     error_text != nullptr ? error_text : lyre_strerror(error));
  }
  uint64_t cookie = 0;
  lyre_context* context;
  lyre_listener* listener = nullptr;  ///< not nullptr: it waits there for lyre_accept()
  uint32_t place = 0;                 ///< in the context's list of sessions
  uint32_t worker = 0;
  lyre::channel::SessionName name;
  int state = LYRE_CONNECTING;
  int error = 0;
  const char* error_text = nullptr;  ///< constant; nullptr: that of `error`
  bool is_given_up = false;          ///< closed or aborted by the user, who has no pointer to it
  bool is_aborted = false;           ///< given up with what was not acknowledged
  int dropped_with = 0;              ///< the error that dropped sends, known before `error`
  bool is_send_shut = false;         ///< lyre_shutdown() was called
  bool is_refused = false;           ///< see ReadyList::note_refusal()
  bool is_peer_finished = false;
  lyre_addr local{};
  lyre_addr remote{};
  void* user = nullptr;

  lyre::client::Fifo<lyre::client::SentBlock> sends;  ///< not done, the oldest first
  uint64_t sends_finished = 0;                        ///< descriptors, since it was opened
  uint64_t unacked_bytes = 0;
  uint64_t arena_bytes = 0;           ///< of the arena, for `sends`: the smallest block for each
  uint32_t region_sends = 0;          ///< of `sends`: from registered memory
  uint32_t front_acked_bytes = 0;     ///< of the oldest send that is not done
  uint32_t rtt_min_us = 0;            ///< 0: not known
  uint32_t rto_us = 0;                ///< the same
  bool is_window_closed = false;      ///< the peer's
  lyre::client::Fifo<uint64_t> tags;  ///< of sends that are done, for lyre_next_sent()

  lyre::client::Fifo<lyre::client::UnreadSlice> received;
  uint64_t readable_bytes = 0;
  lyre::client::Fifo<uint32_t> held_slots;  ///< the user's until lyre_release()
  lyre::client::UntoldCopies untold_copies;
};
