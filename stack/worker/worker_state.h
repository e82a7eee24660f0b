#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "stack/base/drop_reasons.h"
#include "stack/base/rng.h"
#include "stack/base/siphash.h"
#include "stack/ip/path_mtu_cache.h"
#include "stack/ip/route_table.h"
#include "stack/link/neighbours.h"
#include "stack/session/send_queue.h"
#include "stack/session/session.h"
#include "stack/tcp/engine.h"
#include "stack/worker/clients/client_memory.h"
#include "stack/worker/clients/context_table.h"
#include "stack/worker/clients/notifier.h"
#include "stack/worker/flow_table.h"
#include "stack/worker/port.h"
#include "stack/worker/routing/connection_router.h"
#include "stack/worker/tables/half_open_queue.h"
#include "stack/worker/tables/inherited_loans.h"
#include "stack/worker/tables/listeners.h"
#include "stack/worker/tables/orphan_queue.h"
#include "stack/worker/tables/place_accounts.h"
#include "stack/worker/tables/receive_accounts.h"
#include "stack/worker/tables/refused_sessions.h"
#include "stack/worker/tables/slot_loans.h"
#include "stack/worker/tables/transmit_queue.h"
#include "stack/worker/timer_wheel.h"
#include "stack/worker/worker.h"

namespace lyre::worker {

/// The tables that the parts of one worker share, and the time of the turn. Each table keeps its
/// own invariants and knows none of the others. A session has the index of its connection in the
/// engine. Thread: the worker.
struct WorkerState {
  WorkerState(const WorkerConfig& worker_config, io::PacketMemory& packet_memory, size_t port_count,
              StatsBinding stats_binding);

  session::Session& session(uint32_t conn) { return sessions[conn]; }
  channel::SessionName name_of(uint32_t conn) const {
    return {.index = conn, .generation = sessions[conn].generation};
  }
  bool is_same_session(uint32_t conn, uint32_t generation) const {
    return engine.is_open(conn) && sessions[conn].generation == generation;
  }
  /// The connection of the 4-tuple, or FlowTable::kNone.
  uint32_t find_connection(const FourTuple& tuple) const {
    return flows.find(tuple,
                      [this](uint32_t conn) -> const FourTuple& { return engine.tuple(conn); });
  }
  /// REQUIRES: no context owns the session.
  void link_to_context(uint32_t conn, uint32_t context) {
    release_neighbour(session(conn));  // it counts for the user
    // Nothing was lent of it yet, so what it is charged for are the slots that it has.
    const uint32_t slots = engine.charged_bytes(conn) / memory.rx_slot_bytes();
    accounts.remove(session::kNoContext, slots);
    accounts.add(context, slots);
    session(conn).context = context;
    contexts[context].sessions.push_front(sessions, conn);
    places.add_session(accounts.user_of(context));
  }
  /// Whether the client may have another connection.
  bool may_add_session(uint32_t context) const {
    const uint32_t user = accounts.user_of(context);
    const DomainRules* rules = contexts[context].attached.domain;
    return places.may_add_session(user, contexts[context].sessions.size()) &&
           (rules == nullptr || places.sessions_of(user) < rules->sessions_max);
  }
  bool may_add_listener(uint32_t context) const {
    const uint32_t user = accounts.user_of(context);
    const uint32_t count = contexts[context].listeners.size();
    const DomainRules* rules = contexts[context].attached.domain;
    return listeners.may_add(count) && places.may_add_listener(user, count) &&
           (rules == nullptr || places.listeners_of(user) < rules->listeners_max);
  }
  /// Sets the connection's timer to the engine's deadline.
  void arm(uint32_t conn) {
    const Nanos deadline = engine.next_deadline(conn);
    if (deadline != kNever) timers.arm(conn, deadline);
  }
  /// Keeps the entry of the session's neighbour, where there is one and the user's share allows it.
  void hold_neighbour(session::Session& sender) {
    const auto port = static_cast<uint8_t>(sender.port);
    const uint32_t user = accounts.user_of(sender.context);
    const uint32_t entries = neighbours.cache().table(port).capacity();
    if (!places.may_hold_neighbour(user, entries)) return;
    sender.holds_neighbour = neighbours.hold(port, sender.next_hop);
    if (sender.holds_neighbour) places.hold_neighbour(user);
  }
  /// The session does not need its neighbour's entry any more, or its user changes.
  void release_neighbour(session::Session& sender) {
    if (!sender.holds_neighbour) return;
    neighbours.release(sender.port, sender.next_hop);
    places.release_neighbour(accounts.user_of(sender.context));
    sender.holds_neighbour = false;
  }
  /// Whether tools see the connection.
  bool has_row(uint32_t conn) const {
    return conn < stats.connection_rows && conn < stats.rows.size();
  }
  void drop(Drop reason, uint32_t packets = 1) {
    stats.worker->drops[static_cast<size_t>(reason)].add(packets);
  }

  WorkerConfig config;
  io::PacketMemory& memory;
  StatsBinding stats;
  Nanos now;
  Rng rng;
  bool is_shutting_down = false;

  std::vector<Port> ports;  ///< reserved at start
  ip::RouteTable routes;
  ip::PathMtuCache path_mtus;
  link::Neighbours neighbours;

  tcp::Engine engine;
  SipKey flow_label_key;
  FlowTable flows;
  ConnectionRouter router;
  Listeners listeners;
  TimerWheel timers;
  std::unique_ptr<session::Session[], void (*)(void*)> sessions;  ///< by connection index
  TransmitQueue transmit_queue;
  OrphanQueue orphans;
  uint32_t time_waits = 0;   ///< connections in TIME-WAIT, with a client or without
  uint32_t without_row = 0;  ///< sessions for which has_row() is false
  HalfOpenQueue half_opens;
  session::SendPieces sends;

  ContextTable contexts;
  ClientMemory client_memory;
  std::vector<uint32_t> region_segment_bytes;  ///< by region index: see io::PacketMemory
  SlotLoans loans;
  InheritedLoans inherited_loans;
  ReceiveAccounts accounts;
  RefusedSessions refused;
  PlaceAccounts places;
  Notifier notifier;
};

}  // namespace lyre::worker
