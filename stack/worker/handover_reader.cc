#include "stack/worker/handover_reader.h"

#include <algorithm>
#include <cstring>

#include "stack/tcp/connection_fields.h"
#include "stack/tcp/connection_record.h"
#include "stack/wire/tcp_segment.h"

namespace lyre::worker {

namespace {

using record::FieldReader;
using record::Kind;

// A field that is new in a session belongs into SessionRecord as well.
static_assert(sizeof(session::Session) == 184);

/// Not in the record. All sends of which the client was not told when an error ended the session
/// count as dropped, although the peer may have acknowledged some of them.
bool has_dropped_sends(const SessionRecord& record) {
  const bool has_untold = record.announced_sends != static_cast<uint32_t>(record.finished_count);
  return record.is_over && record.end_status != channel::EndStatus::kOk && has_untold;
}

/// All but lists, lists' links, and what belongs to the earlier process.
session::Session session_of(const SessionRecord& record) {
  session::Session session;
  session.generation = record.generation;
  session.listener = record.listener;
  session.listener_generation = record.listener_generation;
  session.cookie = record.cookie;
  session.opened_at = record.opened_at;
  session.sends_announced_at = record.sends_announced_at;
  session.announced_sends = record.announced_sends;
  session.flow_label = record.flow_label;
  session.is_passive = record.is_passive;
  session.is_embryonic = record.is_embryonic;
  session.was_announced = record.was_announced;
  session.is_shut_down = record.is_shut_down;
  session.is_closed_by_client = record.is_closed_by_client;
  session.was_retransmitted = record.was_retransmitted;
  session.is_over = record.is_over;
  session.must_announce_open = record.must_announce_open;
  session.must_announce_progress = record.must_announce_progress;
  session.is_told_closed = record.is_told_closed;
  session.must_announce_finish = record.must_announce_finish;
  session.must_announce_end = record.must_announce_end;
  session.has_dropped_sends = has_dropped_sends(record);
  session.end_status = record.end_status;
  session.marking = record.marking;
  session.copied_tx_bytes = record.copied_tx_bytes;
  session.copied_rx_bytes = record.copied_rx_bytes;
  session.client_copied_tx_bytes = record.client_copied_tx_bytes;
  session.client_copied_rx_bytes = record.client_copied_rx_bytes;
  return session;
}

/// What is left of a session that could not be taken: news for its client.
session::Session ended_session_of(const SessionRecord& record) {
  session::Session session;
  session.generation = record.generation;
  session.cookie = record.cookie;
  session.opened_at = record.opened_at;
  session.announced_sends = record.announced_sends;
  session.sends.finished_count = record.finished_count + record.piece_count;
  session.has_dropped_sends = record.piece_count > 0 || has_dropped_sends(record);
  session.is_passive = record.is_passive;
  session.was_announced = record.was_announced;
  session.is_over = session.must_announce_end = true;
  session.end_status = channel::EndStatus::kAborted;
  return session;
}

/// 0: what is not a part of a session.
uint16_t newest_of_part(Kind kind) {
  switch (kind) {
    case Kind::kPiece:
    case Kind::kReceived:
      return kHandoverVersion;
    case Kind::kConnection:
      return tcp::kConnectionRecordVersion;
    case Kind::kSent:
      return tcp::kSentRecordVersion;
    case Kind::kUndo:
      return tcp::kUndoRecordVersion;
    default:
      return 0;
  }
}

/// What is left of a session's records. False: they are of a later version.
bool skip_parts(record::Reader& in) {
  while (const uint16_t newest = newest_of_part(in.next())) {
    if (!in.try_skip(newest)) return false;
  }
  return true;
}

}  // namespace

bool HandoverReader::take_over(std::span<const Command> memory, record::Reader& in) {
  for (const Command& command : memory) {
    if (command.kind == Command::Kind::kAttach) {
      parts_.contexts.attach(command);
      if (!state_.contexts[command.context].has_region) return false;
    } else if (!parts_.regions.try_add(command)) {
      return false;
    }
  }
  WorkerRecord worker;
  const auto list = [&](FieldReader& fields) { list_worker(fields, worker); };
  if (!in.take(Kind::kWorker, kHandoverVersion, list)) return false;
  if (worker.context_count != state_.contexts.in_use().size()) return false;
  if (!read_contexts(worker.context_count, in)) return false;
  if (!read_listeners(worker.listener_count, in)) return false;
  for (uint32_t i = 0; i < worker.session_count; ++i) {
    if (!read_session(in)) return false;
  }
  if (!in.take(Kind::kEnd, kHandoverVersion, [](FieldReader&) {})) return false;
  state_.listeners.restore_generations(worker.listener_generations);
  parts_.lifecycle.restore_generations(worker.session_generations);
  state_.engine.records().restore_last_cookie_at(worker.last_cookie_at);
  restore_charges();
  queue_by_age();
  for (const uint32_t conn : sessions_) begin(conn);
  for (const ContextRecord& record : detaching_) {
    parts_.contexts.detach({.kind = Command::Kind::kDetach,
                            .context = record.index,
                            .resets_sessions = record.resets_sessions});
    state_.contexts[record.index].linger_until = record.linger_until;
  }
  return true;
}

bool HandoverReader::read_contexts(uint32_t count, record::Reader& in) {
  for (uint32_t i = 0; i < count; ++i) {
    if (!read_context(in)) return false;
  }
  return true;
}

bool HandoverReader::read_context(record::Reader& in) {
  ContextRecord record;
  const auto list = [&](FieldReader& fields) { list_context(fields, record); };
  if (!in.take(Kind::kContext, kHandoverVersion, list)) return false;
  const auto in_use = state_.contexts.in_use();
  if (std::find(in_use.begin(), in_use.end(), record.index) == in_use.end()) return false;
  Context& context = state_.contexts[record.index];
  if (context.is_inherited) return false;  // a second record of it
  channel::RingPair& rings = *context.attached.rings;
  context.submissions = {&rings.submission_indices, rings.submissions, record.submissions_position};
  context.completions = {&rings.completion_indices, rings.completions, record.completions_position};
  context.is_lent = false;
  context.is_inherited = true;
  if (record.is_expelled) {  // said again: the earlier control thread may not have taken it
    context.state = Context::State::kExpelled;
    parts_.replies.post({.kind = Reply::Kind::kExpelled,
                         .context = record.index,
                         .reason = "broke a rule before the daemon was upgraded"});
  }
  if (record.is_detaching) detaching_.push_back(record);
  return read_loans(record, in) && read_leaving(record, in) && read_failed_opens(context, in);
}

bool HandoverReader::read_loans(const ContextRecord& record, record::Reader& in) {
  LoanRecord loan;
  const auto list = [&](FieldReader& fields) { list_loan(fields, loan); };
  for (uint32_t i = 0; i < record.loan_count; ++i) {
    if (!in.take(Kind::kLoan, kHandoverVersion, list)) return false;
    const InheritedLoan inherited{.context = record.index,
                                  .slot = loan.slot,
                                  .session = loan.session,
                                  .generation = loan.generation,
                                  .charge_bytes = loan.charge_bytes};
    if ((loan.slot & kCopySlotBit) != 0 || !state_.inherited_loans.add(inherited)) return false;
    charges_.push_back({loan.session, loan.generation, loan.charge_bytes});
  }
  CopyBlocks& blocks = state_.contexts[record.index].copy_blocks;
  for (uint32_t i = 0; i < record.copy_block_count; ++i) {
    if (!in.take(Kind::kCopyBlock, kHandoverVersion, list)) return false;
    const CopyBlocks::Held held{loan.session, loan.generation, loan.charge_bytes};
    if (!blocks.restore(loan.slot, held)) return false;
    charges_.push_back({loan.session, loan.generation, loan.charge_bytes, true});
  }
  return true;
}

bool HandoverReader::read_leaving(const ContextRecord& record, record::Reader& in) {
  for (uint32_t i = 0; i < record.leaving_count; ++i) {
    uint32_t name = 0;
    const auto list = [&](FieldReader& fields) { fields.number(name); };
    if (!in.take(Kind::kLeaving, kHandoverVersion, list)) return false;
    const ClientMemory::Region& region = state_.client_memory[channel::region_index(name)];
    const bool is_there = region.name == name && region.context == record.index;
    if (name == 0 || !is_there || region.is_leaving) return false;
    if (!state_.client_memory.try_begin_leaving(name)) return false;
  }
  return true;
}

bool HandoverReader::read_failed_opens(Context& context, record::Reader& in) {
  while (in.next() == Kind::kFailedOpen) {
    FailedOpen failed;
    const auto list = [&](FieldReader& fields) { list_failed_open(fields, failed); };
    if (!in.take(Kind::kFailedOpen, kHandoverVersion, list)) return false;
    if (!state_.notifier.try_keep_failed_open(context, failed)) return false;
  }
  return true;
}

bool HandoverReader::read_listeners(uint32_t count, record::Reader& in) {
  for (uint32_t i = 0; i < count; ++i) {
    ListenerRecord record;
    const auto list = [&](FieldReader& fields) { list_listener(fields, record); };
    if (!in.take(Kind::kListener, kHandoverVersion, list)) return false;
    if (record.context >= kContextsMax || !state_.contexts[record.context].is_inherited) {
      return false;
    }
    const Listener listener{.local = record.local,
                            .context = record.context,
                            .generation = record.generation,
                            .cookie = record.cookie,
                            .backlog = record.backlog};
    if (!may_listen_at(record.local.address)) {
      refusal_ = "its configuration lacks the address of a listener";
      return false;
    }
    if (!state_.listeners.restore(record.index, listener)) return false;
    state_.contexts[record.context].listeners.push_back(state_.listeners, record.index);
    state_.places.add_listener(state_.accounts.user_of(record.context));
    parts_.stats_writer.write_listener_row(record.index);
  }
  return true;
}

/// A listener keeps an address that another host has, as long as it is configured.
bool HandoverReader::may_listen_at(const IpAddress& address) const {
  return address.is_unspecified() || state_.routes.is_own(address) ||
         state_.routes.is_lost(address);
}

bool HandoverReader::read_session(record::Reader& in) {
  SessionRecord record;
  const auto list = [&](FieldReader& fields) { list_session(fields, record); };
  if (!in.take(Kind::kSession, kHandoverVersion, list)) return false;
  const bool fits = record.conn >= state_.engine.index_bound() &&
                    record.conn < state_.config.engine.connections_max;
  if (!fits) return false;
  if (restore_session(record, in)) return true;
  // With another configuration, or a later version, no session need end: the earlier daemon goes
  // on.
  if (refusal_ != nullptr || !skip_parts(in)) return false;
  lose(record);
  return true;
}

bool HandoverReader::restore_session(const SessionRecord& record, record::Reader& in) {
  const uint32_t conn = record.conn;
  state_.session(conn) = session_of(record);
  if (!restore_pieces(record, in)) return false;
  if (!state_.engine.records().read(conn, state_.memory.rx_slot_bytes(), state_.now, in))
    return false;
  const bool is_restored = is_sound(record) && restore_place(record) && restore_context(record) &&
                           restore_texts(record, in);
  if (!is_restored) return false;
  restore_listener(record);
  sessions_.push_back(conn);
  return true;
}

void HandoverReader::lose(const SessionRecord& record) {
  const uint32_t conn = record.conn;
  ++sessions_lost_;
  drop_restored(record);
  if (!is_known_to_client(record)) {
    if (state_.engine.is_open(conn)) state_.engine.release(conn);
    state_.session(conn) = session::Session{};
    return;
  }
  if (!state_.engine.is_open(conn)) state_.engine.records().open_closed(conn);
  state_.session(conn) = ended_session_of(record);
  static_cast<void>(restore_context(record));
  sessions_.push_back(conn);
}

/// Takes back what restore_session() did before it failed. A connection that is open is CLOSED
/// then.
void HandoverReader::drop_restored(const SessionRecord& record) {
  session::Session& session = state_.session(record.conn);
  const uint32_t dropped = state_.sends.clear(session.sends);
  if (dropped > 0) state_.contexts[record.context].sends_under_way -= dropped;
  if (state_.engine.is_open(record.conn)) {
    parts_.payload.release_all(record.conn);
    state_.flows.erase(state_.engine.tuple(record.conn), record.conn);
    static_cast<void>(state_.engine.on_app_abort(record.conn, state_.now));
  }
  if (session.context == session::kNoContext) return;
  state_.contexts[session.context].sessions.remove(state_.sessions, record.conn);
  state_.places.remove_session(state_.accounts.user_of(session.context));
}

bool HandoverReader::is_known_to_client(const SessionRecord& record) const {
  const bool has_context =
      record.context < kContextsMax && state_.contexts[record.context].is_inherited;
  return has_context && (record.was_announced || !record.is_passive);
}

/// What the session says agrees with what TCP says.
bool HandoverReader::is_sound(const SessionRecord& record) const {
  const tcp::State tcp_state = state_.engine.state(record.conn);
  const bool is_closed = tcp_state == tcp::State::kClosed;
  const bool has_context = record.context != session::kNoContext;
  if (record.is_over != (is_closed || tcp_state == tcp::State::kTimeWait)) return false;
  if (is_closed && !has_context) return false;  // nothing would ever release it
  if (record.is_embryonic != (record.is_passive && tcp_state == tcp::State::kSynReceived)) {
    return false;
  }
  if (record.is_embryonic && (has_context || record.listener >= state_.config.listeners_max)) {
    return false;
  }
  // After the event of the end the send queue is dropped: TCP must not need it any longer.
  const bool may_end = record.is_over || (record.is_closed_by_client && record.piece_count == 0);
  if (record.must_announce_end && !may_end) return false;
  if (record.piece_count > 0 && !has_context) return false;
  const bool has_listener = state_.listeners.is_valid(record.listener, record.listener_generation);
  if (has_listener && !record.is_passive) return false;
  if (is_closed) return record.piece_count == 0;
  // What is sent is no larger than what is received: RFC 9293 3.7.1, and the port's MTU.
  const tcp::ConnectionInfo info = state_.engine.info(record.conn);
  const uint32_t mss_bytes_max = state_.engine.config(record.conn).mss_bytes;
  if (info.mss_bytes > mss_bytes_max || info.mss_full_bytes > mss_bytes_max) return false;
  uint64_t bytes = 0;
  state_.sends.for_each(state_.sessions[record.conn].sends,
                        [&](const BufRef& piece) { bytes += piece.length; });
  return bytes == uint64_t{info.send_queue_bytes} + record.head_acked_bytes;
}

/// Whether segments of the connection, sent and received, fit into packets of its port.
bool HandoverReader::fits_mtu(uint32_t conn) const {
  const uint32_t header_bytes =
      wire::ip_and_tcp_header_bytes(state_.engine.tuple(conn).local.address);
  const uint32_t packet_bytes = state_.engine.config(conn).mss_bytes + header_bytes;
  return packet_bytes <= state_.ports[state_.sessions[conn].port].mtu_bytes();
}

/// The connection's place in the tables, and its way to the peer.
bool HandoverReader::restore_place(const SessionRecord& record) {
  const FourTuple& tuple = state_.engine.tuple(record.conn);
  if (state_.find_connection(tuple) != FlowTable::kNone) return false;
  const auto port = state_.routes.port_of(tuple.local.address);
  const auto route = state_.routes.lookup_from(tuple.local.address, tuple.remote.address);
  // Routers of IPv6 that were learned are learned again: until then there may be no route.
  const bool may_wait =
      port && !tuple.local.address.is_v4() && state_.neighbours.ndp().takes_routers(*port);
  if (!port || (!route && !may_wait)) {
    refusal_ = "its configuration lacks the address or the route of a session";
    return false;
  }
  session::Session& session = state_.session(record.conn);
  session.port = route ? route->port : *port;
  session.next_hop = route ? route->next_hop : IpAddress{};
  session.is_local = route && route->is_local;
  if (!record.is_over && !fits_mtu(record.conn)) {
    refusal_ = "a session has larger segments than port.mtu allows: raise it, or restart lyred";
    return false;
  }
  state_.flows.insert(tuple, record.conn);
  return true;
}

bool HandoverReader::restore_context(const SessionRecord& record) {
  const uint32_t context = record.context;
  if (context == session::kNoContext) return true;
  if (context >= kContextsMax || !state_.contexts[context].is_inherited) return false;
  state_.session(record.conn).context = context;
  state_.contexts[context].sessions.push_back(state_.sessions, record.conn);
  state_.places.add_session(state_.accounts.user_of(context));
  return true;
}

void HandoverReader::restore_listener(const SessionRecord& record) {
  if (!state_.listeners.is_valid(record.listener, record.listener_generation)) return;
  Listener& listener = state_.listeners[record.listener];
  listener.begin_handshake();
  if (!record.is_embryonic) listener.end_handshake();
}

/// Whether the piece lies in memory that the context has.
bool HandoverReader::is_of(uint32_t context, const BufRef& piece) const {
  if (piece.region >= kRegionsMax) return false;
  const ClientMemory::Region& region = state_.client_memory[piece.region];
  return region.base != nullptr && region.context == context && piece.length <= region.bytes &&
         piece.offset <= region.bytes - piece.length;
}

bool HandoverReader::restore_pieces(const SessionRecord& record, record::Reader& in) {
  session::SendQueue& sends = state_.session(record.conn).sends;
  if (record.piece_count == 0 && record.head_acked_bytes > 0) return false;
  for (uint32_t i = 0; i < record.piece_count; ++i) {
    BufRef piece;
    const auto list = [&](FieldReader& fields) { list_piece(fields, piece); };
    if (!in.take(Kind::kPiece, kHandoverVersion, list)) return false;
    if (i == 0 && record.head_acked_bytes >= piece.length) return false;
    if (record.context >= kContextsMax || !is_of(record.context, piece)) return false;
    Context& context = state_.contexts[record.context];
    if (context.sends_under_way >= channel::kSendsPerContextMax) return false;
    if (!state_.sends.try_append(sends, piece)) return false;
    ++context.sends_under_way;
  }
  sends.head_acked_bytes = record.head_acked_bytes;
  sends.finished_count = record.finished_count;
  return true;
}

bool HandoverReader::restore_texts(const SessionRecord& record, record::Reader& in) {
  for (uint32_t i = 0; i < record.text_count; ++i) {
    SeqNum start;
    std::span<const uint8_t> bytes;
    const auto list = [&](FieldReader& fields) {
      fields.seq(start);
      bytes = fields.rest();
      fields.require(!bytes.empty() && bytes.size() <= kTextBytesMax);
    };
    if (!in.take(Kind::kReceived, kHandoverVersion, list)) return false;
    if (!restore_text(record.conn, start, bytes)) return false;
  }
  const tcp::ReceiveQueue queue = state_.engine.receive_queue(record.conn);
  state_.session(record.conn).has_readable = queue.first_in_order().has_value();
  return queue.is_gapless();
}

/// Copies the text into as many packets as it needs. Text behind a gap may be dropped: the peer
/// sends it again (RFC 2018 8).
bool HandoverReader::restore_text(uint32_t conn, SeqNum start, std::span<const uint8_t> bytes) {
  session::Session& reader = state_.session(conn);
  while (!bytes.empty()) {
    const bool is_needed = !start.after(state_.engine.receive_queue(conn).text_end());
    io::PacketBuf* packet = state_.memory.alloc_rx();
    if (packet == nullptr) {
      if (is_needed) {
        refusal_ = "memory.rx_slots has no room for unread bytes: raise it, or restart lyred";
      }
      return !is_needed;
    }
    const auto count = static_cast<uint32_t>(std::min<size_t>(bytes.size(), packet->tailroom));
    std::memcpy(packet->data, bytes.data(), count);
    packet->length = count;
    packet->tailroom = static_cast<uint16_t>(packet->tailroom - count);
    const tcp::ReceivedText text{
        .start = start,
        .payload = {.handle = {packet->slot}, .offset = 0, .length = count},
        .charge_bytes = state_.memory.rx_slot_bytes()};
    if (!state_.engine.records().restore_text(conn, text)) {
      state_.memory.release({&packet, 1});
      return false;
    }
    state_.accounts.add(reader.context, 1);
    reader.copied_rx_bytes += count;
    state_.stats.worker->copied_rx_bytes.add(count);
    bytes = bytes.subspan(count);
    start += count;
  }
  return true;
}

void HandoverReader::restore_charges() {
  for (const Charge& charge : charges_) {
    const bool is_open = charge.session < state_.config.engine.connections_max &&
                         state_.is_same_session(charge.session, charge.generation);
    if (!is_open) continue;
    state_.engine.records().restore_charge(charge.session, charge.bytes);
    if (charge.is_block) ++state_.session(charge.session).lent_slots;
  }
}

/// Puts sessions that may be dropped for others into their queues, the oldest first.
void HandoverReader::queue_by_age() {
  std::vector<uint32_t> by_age = sessions_;
  std::stable_sort(by_age.begin(), by_age.end(), [this](uint32_t a, uint32_t b) {
    return state_.sessions[a].opened_at < state_.sessions[b].opened_at;
  });
  for (const uint32_t conn : by_age) {
    if (state_.sessions[conn].is_embryonic) {
      state_.half_opens.add(conn);
    } else if (state_.sessions[conn].context == session::kNoContext) {
      state_.orphans.add(conn, state_.engine.state(conn) == tcp::State::kTimeWait);
    }
  }
}

/// Starts the timers, and schedules pending events and one segment to the peer: queued packets are
/// lost, and switches may have to learn the port of this host.
void HandoverReader::begin(uint32_t conn) {
  parts_.lifecycle.begin_trace(conn);
  if (!state_.has_row(conn)) ++state_.without_row;
  if (state_.engine.state(conn) == tcp::State::kTimeWait) ++state_.time_waits;
  if (state_.engine.state(conn) != tcp::State::kClosed) {
    state_.engine.records().speak_up(conn);
    state_.transmit_queue.schedule(conn);
    state_.arm(conn);
  }
  state_.notifier.mark(conn);
}

}  // namespace lyre::worker
