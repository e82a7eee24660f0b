#pragma once

#include <atomic>
#include <cstdint>

#include "stack/base/index_list.h"
#include "stack/base/ip_address.h"
#include "stack/base/nanos.h"
#include "stack/channel/abi.h"
#include "stack/channel/ring.h"
#include "stack/session/session.h"
#include "stack/worker/clients/copy_blocks.h"
#include "stack/worker/inbox.h"
#include "stack/worker/tables/listeners.h"

namespace lyre::worker {

/// An open that failed, and for which no session stands: its client must still be told.
struct FailedOpen {
  uint64_t cookie = 0;
  FourTuple tuple;
  channel::EndStatus status = channel::EndStatus::kOk;
  IndexLink link;  ///< in the list of its context
};

/// One client context as one worker knows it. Thread: the worker.
struct Context {
  enum class State : uint8_t {
    kFree,
    kAttached,
    kExpelled,   ///< the client broke a rule; its rings are no longer read until kDetach
    kDetaching,  ///< gives up sessions and slots, then waits until no port holds its memory
  };
  State state = State::kFree;
  bool has_region = false;  ///< the ports know its arena
  bool is_lent = false;     ///< receive slots may be lent to it
  /// An earlier daemon attached it: it has the receive pools of that one, so nothing is lent to it.
  bool is_inherited = false;
  /// Its next submission is an open whose claim had no room in the ring to another worker.
  bool waits_to_open = false;
  // ---- Detaching ----
  bool resets_sessions = false;  ///< else they are closed
  bool is_leaving_sessions = false;
  uint32_t last_submissions_max = 0;  ///< so many entries of its ring may still be taken
  uint32_t sessions_to_leave = 0;     ///< at the front of `sessions`: not given up yet
  uint32_t slots_taken_back = 0;      ///< the receive slots below this were looked at
  Nanos linger_until;                 ///< what it sent is acknowledged by then, or dropped
  uint32_t held_region = UINT32_MAX;  ///< a port held a piece of it: see ClientMemory
  // ----

  uint32_t sends_under_way = 0;  ///< of all its sessions
  uint32_t kept_slots = 0;       ///< receive slots that it has had all the time: ReceivePressure
  uint32_t dense_index = 0;      ///< the ContextTable's
  Command attached;              ///< as the control thread described it
  channel::SubmissionConsumer submissions;
  channel::CompletionProducer completions;
  IndexList<session::Session, &session::Session::owner_link> sessions;
  IndexList<session::Session, &session::Session::dirty_link> dirty;  ///< those with pending events
  IndexList<Listener, &Listener::link> listeners;
  IndexList<FailedOpen, &FailedOpen::link> failed_opens;  ///< the Notifier's

  CopyBlocks copy_blocks;

  /// True when the client may have a connection between these, through this port.
  bool may_talk(uint32_t port, uint16_t local_port, const IpAddress& peer) const {
    const DomainRules* rules = attached.domain;
    return rules == nullptr || (rules->allows_port(port) && rules->allows_local(local_port) &&
                                rules->allows_peer(peer));
  }

  /// Whether each of the workers has taken its kAttach.
  bool is_known_to_all(uint32_t worker_count) const {
    const std::atomic<uint32_t>* attached_workers = attached.attached_workers;
    // Acquire: pairs with the release in ContextLifecycle::attach().
    return attached_workers == nullptr ||
           attached_workers->load(std::memory_order_acquire) == worker_count;
  }

  channel::ContextHeader& header() const {
    return *reinterpret_cast<channel::ContextHeader*>(attached.memory);
  }
};

}  // namespace lyre::worker
