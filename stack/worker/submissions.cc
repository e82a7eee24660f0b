#include "stack/worker/submissions.h"

#include <cstring>
#include <optional>

#include "stack/base/buf_ref.h"
#include "stack/session/options.h"
#include "stack/session/session.h"
#include "stack/worker/clients/copy_blocks.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

namespace {

Endpoint endpoint_of(const uint8_t (&address)[16], uint16_t port) {
  Endpoint endpoint{.port = port};
  std::memcpy(endpoint.address.bytes.data(), address, 16);
  return endpoint;
}

constexpr uint32_t kListenerBit = 0x8000'0000;

}  // namespace

size_t Submissions::take() {
  size_t taken = 0;
  opens_ = 0;
  walk_.over(state_.contexts.in_use(), [&](uint32_t index) {
    Context& context = state_.contexts[index];
    if (context.state != Context::State::kAttached) return true;
    const char* broken_rule = nullptr;
    taken += take_of(context, broken_rule);
    if (broken_rule != nullptr) parts_.replies.expel(context, broken_rule);
    return taken < kSubmissionsPerPollMax && opens_ < kOpensPerPollMax;
  });
  state_.stats.worker->submissions.add(taken);
  return taken;
}

size_t Submissions::take_of(Context& context, const char*& broken_rule) {
  // A client that left reads no answer, so it needs no room for one, and opens nothing.
  const bool has_left = context.state == Context::State::kDetaching;
  const size_t opens_max = opens_ + kOpensPerContextMax;
  context.waits_to_open = false;
  size_t count = 0;
  while (count < kSubmissionsPerContextMax && opens_ < opens_max &&
         context.submissions.available() > 0) {
    if (context.completions.room() == 0 && !has_left) break;  // the answer would have none
    const channel::Submission entry = context.submissions.pop();
    ++count;
    if (has_left && (entry.op == channel::Op::kConnect || entry.op == channel::Op::kListen))
      continue;
    broken_rule = on_submission(context, entry);
    if (context.waits_to_open) {
      context.submissions.put_back();
      --count;
    }
    if (broken_rule != nullptr || context.waits_to_open) break;
  }
  if (count > 0) context.submissions.publish();
  if (context.submissions.is_broken()) broken_rule = "submission ring index out of range";
  return count;
}

bool Submissions::are_waiting() const { return is_any_waiting(true); }
bool Submissions::are_held_up() const { return is_any_waiting(false); }

/// Of a client whose next submission has room for what it leads to, or has none.
bool Submissions::is_any_waiting(bool has_room) const {
  for (const uint32_t index : state_.contexts.in_use()) {
    Context& context = state_.contexts[index];
    if (context.state == Context::State::kAttached && context.submissions.available() > 0 &&
        (context.completions.room() > 0 && !context.waits_to_open) == has_room) {
      return true;
    }
  }
  return false;
}

const char* Submissions::on_submission(Context& context, const channel::Submission& entry) {
  switch (entry.op) {
    case channel::Op::kConnect:
      return on_connect(context, entry);
    case channel::Op::kListen:
      return on_listen(context, entry);
    case channel::Op::kCloseListen:
      return on_close_listen(context, entry);
    case channel::Op::kRelease:
      return on_release(context, entry);
    case channel::Op::kSend:
    case channel::Op::kShutdown:
    case channel::Op::kClose:
    case channel::Op::kAbort:
    case channel::Op::kSetOption:
      return on_session_submission(context, entry);
    default:
      return "unknown submission";
  }
}

const char* Submissions::on_session_submission(Context& context, const channel::Submission& entry) {
  // A name that is no longer in use: the session ended while the entry was under way.
  if (!is_live(context, entry.session)) return nullptr;
  const uint32_t conn = entry.session.index;
  if (entry.op == channel::Op::kSend) return on_send(context, conn, entry);
  if (entry.op == channel::Op::kSetOption) return on_set_option(conn, entry);
  if (entry.op == channel::Op::kClose) {
    parts_.lifecycle.close_by_client(conn);
  } else if (entry.op == channel::Op::kAbort) {
    parts_.lifecycle.abort(conn, channel::EndStatus::kAborted);
  } else {
    shut_down_session(conn);
  }
  return nullptr;
}

bool Submissions::is_live(const Context& context, channel::SessionName name) const {
  if (name.index >= state_.config.engine.connections_max || !state_.engine.is_open(name.index))
    return false;
  const session::Session& found = state_.sessions[name.index];
  return found.generation == name.generation &&
         found.context == state_.contexts.index_of(context) && !found.is_closed_by_client;
}

const char* Submissions::on_connect(Context& context, const channel::Submission& entry) {
  ++opens_;
  const auto& open = entry.body.open;
  const Endpoint remote = endpoint_of(open.remote_address, open.remote_port);
  const Endpoint local = endpoint_of(open.local_address, open.local_port);
  uint32_t conn = tcp::kNoConn;
  std::optional<channel::EndStatus> status = channel::EndStatus::kShutdown;
  if (!state_.is_shutting_down) {
    status =
        parts_.lifecycle.open(state_.contexts.index_of(context), local, remote, open.cookie, conn);
  }
  if (!status) {
    // The worker at the other end of the ring reads it soon. A failure would tell the client that
    // there is no connection left.
    context.waits_to_open = true;
  } else if (*status != channel::EndStatus::kOk) {
    state_.stats.worker->connect_failures.add(1);
    state_.notifier.answer_open(context, channel::Event::kConnectFailed, *status, open.cookie, {},
                                {local, remote});
  } else {
    state_.notifier.answer_open(context, channel::Event::kConnecting, *status, open.cookie,
                                state_.name_of(conn), state_.engine.tuple(conn));
  }
  return nullptr;
}

const char* Submissions::on_listen(Context& context, const channel::Submission& entry) {
  const auto& open = entry.body.open;
  Endpoint local = endpoint_of(open.local_address, open.local_port);
  uint32_t index = Listeners::kNone;
  const channel::EndStatus status = listen(context, local, entry, index);
  if (status != channel::EndStatus::kOk) {
    state_.notifier.answer_open(context, channel::Event::kListenFailed, status, open.cookie, {},
                                {local, {}});
  } else {
    state_.notifier.answer_open(context, channel::Event::kListening, status, open.cookie,
                                {index | kListenerBit, state_.listeners[index].generation},
                                {local, {}});
  }
  return nullptr;
}

/// Whom a listener may accept is asked for each SYN.
bool Submissions::may_listen(const Context& context, const Endpoint& local) const {
  const DomainRules* rules = context.attached.domain;
  if (rules == nullptr) return true;
  const auto port = state_.routes.port_of(local.address);
  return rules->may_listen && rules->allows_local(local.port) &&
         (!port || rules->allows_port(*port));
}

/// Opens a listener. `local` gets a port where it has none.
channel::EndStatus Submissions::listen(Context& context, Endpoint& local,
                                       const channel::Submission& entry, uint32_t& index) {
  if (state_.is_shutting_down) return channel::EndStatus::kShutdown;
  if (!local.address.is_unspecified() && !state_.routes.is_own(local.address)) {
    return channel::EndStatus::kAddressUnknown;
  }
  if (!may_listen(context, local)) return channel::EndStatus::kForbidden;
  if (local.port == 0) {
    const auto port = parts_.lifecycle.choose_port(local.address, Endpoint{});
    if (!port) return channel::EndStatus::kNoResources;
    local.port = *port;
  }
  if (state_.listeners.is_taken(local)) return channel::EndStatus::kAddressInUse;
  const uint32_t owner = state_.contexts.index_of(context);
  if (!state_.may_add_listener(owner)) return channel::EndStatus::kNoResources;
  const uint32_t backlog = entry.backlog == 0 ? 1 : entry.backlog;
  index = state_.listeners.add(
      {.local = local, .context = owner, .cookie = entry.body.open.cookie, .backlog = backlog});
  if (index == Listeners::kNone) return channel::EndStatus::kNoResources;
  context.listeners.push_back(state_.listeners, index);
  state_.places.add_listener(state_.accounts.user_of(owner));
  parts_.stats_writer.write_listener_row(index);
  return channel::EndStatus::kOk;
}

const char* Submissions::on_close_listen(Context& context, const channel::Submission& entry) {
  if ((entry.session.index & kListenerBit) == 0) return "kCloseListen names no listener";
  const uint32_t index = entry.session.index & ~kListenerBit;
  if (!state_.listeners.is_valid(index, entry.session.generation) ||
      state_.listeners[index].context != state_.contexts.index_of(context)) {
    return nullptr;
  }
  close_listener(context, index);
  return nullptr;
}

void Submissions::close_listener(Context& context, uint32_t index) {
  context.listeners.remove(state_.listeners, index);
  state_.places.remove_listener(state_.accounts.user_of(state_.contexts.index_of(context)));
  state_.listeners.remove(index);
  parts_.stats_writer.write_listener_row(index);
}

const char* Submissions::on_send(Context& context, uint32_t conn,
                                 const channel::Submission& entry) {
  const auto& send = entry.body.send;
  session::Session& sender = state_.session(conn);
  if (send.bytes == 0 || send.bytes > channel::kSendBytesMax) return "kSend of a forbidden length";
  // TCP takes nothing behind a FIN: the piece would stay queued until the connection is forgotten.
  if (sender.is_shut_down) return "kSend after kShutdown";
  if (sender.sends.piece_count >= channel::kSendsOutstandingMax ||
      context.sends_under_way >= channel::kSendsPerContextMax) {
    return "too many kSend under way";
  }
  std::optional<BufRef> piece;
  if (!sender.is_over) {
    const char* broken_rule =
        state_.client_memory.locate(state_.contexts.index_of(context), entry, piece);
    if (broken_rule != nullptr) return broken_rule;
    if (!piece) parts_.lifecycle.abort(conn, channel::EndStatus::kDeregistered);
  }
  if (sender.is_over) {
    // Nothing leaves any more: finished at once, the end is (or will be) announced.
    ++sender.sends.finished_count;
    sender.has_dropped_sends = true;
    state_.notifier.mark(conn);
    return nullptr;
  }
  if (!state_.sends.try_append(sender.sends, *piece)) return "no place for another kSend";
  ++context.sends_under_way;
  sender.client_copied_tx_bytes += entry.copied_bytes;
  state_.stats.worker->client_copied_tx_bytes.add(entry.copied_bytes);
  const tcp::Effects effects = state_.engine.on_app_send(conn, send.bytes, state_.now);
  parts_.lifecycle.apply(conn, effects);
  return nullptr;
}

void Submissions::shut_down_session(uint32_t conn) {
  state_.session(conn).is_shut_down = true;
  if (state_.session(conn).is_over) return;
  const tcp::Effects effects = state_.engine.on_app_shutdown(conn, state_.now);
  parts_.lifecycle.apply(conn, effects);
}

const char* Submissions::on_set_option(uint32_t conn, const channel::Submission& entry) {
  const channel::SessionOption option = entry.body.option.name;
  const uint32_t value = entry.body.option.value;
  tcp::ConnectionConfig wanted = state_.engine.config(conn);
  IpMarking& marking = state_.session(conn).marking;
  if (!session::apply_option(option, value, wanted, marking))
    return "kSetOption of what is not allowed";
  if (state_.session(conn).is_over) return nullptr;
  const tcp::Effects effects = state_.engine.configure(conn, wanted, state_.now);
  parts_.lifecycle.apply(conn, effects);
  return nullptr;
}

/// Slots of one session come together mostly: its window then opens once for all of them.
const char* Submissions::on_release(Context& context, const channel::Submission& entry) {
  if (entry.count > channel::kReleaseSlotsMax) return "kRelease of too many slots";
  SlotLoan owner;
  uint32_t count = 0;
  uint32_t released = 0;
  const char* broken_rule = nullptr;
  for (uint32_t i = 0; i < entry.count && broken_rule == nullptr; ++i) {
    const uint32_t slot = entry.body.release.slots[i];
    if (slot & kCopySlotBit) {
      broken_rule = release_copy_block(context, slot & ~kCopySlotBit);
      continue;
    }
    if (context.is_inherited && release_inherited(context, slot)) continue;
    const auto loan = state_.loans.take_back(slot, state_.contexts.index_of(context));
    if (!loan) {
      broken_rule = "kRelease of a slot that was not lent to this client";
      continue;
    }
    parts_.payload.release_slot(slot);
    ++released;
    if (count > 0 && !(*loan == owner)) {
      return_slots(owner, count);
      count = 0;
    }
    owner = *loan;
    ++count;
  }
  return_slots(owner, count);
  state_.accounts.remove(state_.contexts.index_of(context), released);
  if (entry.copied_bytes > 0) count_received_copy(context, entry.session, entry.copied_bytes);
  return broken_rule;
}

void Submissions::count_received_copy(const Context& context, channel::SessionName reader,
                                      uint32_t bytes) {
  state_.stats.worker->client_copied_rx_bytes.add(bytes);
  if (is_live(context, reader)) state_.session(reader.index).client_copied_rx_bytes += bytes;
}

void Submissions::return_slots(const SlotLoan& owner, uint32_t count) {
  if (count == 0) return;
  if (state_.is_same_session(owner.session, owner.generation))
    state_.session(owner.session).lent_slots -= count;
  return_charge(owner.session, owner.generation, count * state_.memory.rx_slot_bytes());
}

/// False: the slot is none that an earlier daemon lent.
bool Submissions::release_inherited(const Context& context, uint32_t slot) {
  const auto loan = state_.inherited_loans.take_back(state_.contexts.index_of(context), slot);
  if (loan) return_charge(loan->session, loan->generation, loan->charge_bytes);
  return loan.has_value();
}

const char* Submissions::release_copy_block(Context& context, uint32_t block) {
  const auto held = context.copy_blocks.take_back(block);
  if (!held) return "kRelease of a copy block that was not given to this client";
  if (!context.is_lent && state_.is_same_session(held->session, held->generation)) {
    --state_.session(held->session).lent_slots;
  }
  return_charge(held->session, held->generation, held->charge_bytes);
  return nullptr;
}

void Submissions::return_charge(uint32_t conn, uint32_t generation, uint32_t charge_bytes) {
  if (!state_.is_same_session(conn, generation)) return;
  const tcp::Effects effects = state_.engine.on_app_release(conn, charge_bytes, state_.now);
  parts_.lifecycle.apply(conn, effects);
  // A free slot or block may be what the next bytes waited for.
  if (state_.engine.is_open(conn) && state_.session(conn).has_readable) state_.notifier.mark(conn);
}

}  // namespace lyre::worker
