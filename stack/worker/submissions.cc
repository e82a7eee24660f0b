#include <cstring>

#include "stack/channel/abi.h"
#include "stack/session/options.h"
#include "stack/session/session.h"
#include "stack/tcp/engine.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/impl.h"
#include "stack/worker/tables/listeners.h"
#include "stack/worker/tables/slot_loans.h"

/// What clients ask for. An entry is copied once out of shared memory and then checked: each
/// handler returns nullptr, or the rule that the client broke, which ends it.
namespace lyre::worker {

namespace {

Endpoint endpoint_of(const uint8_t (&address)[16], uint16_t port) {
  Endpoint endpoint{.port = port};
  std::memcpy(endpoint.address.bytes.data(), address, 16);
  return endpoint;
}

constexpr uint32_t kListenerBit = 0x8000'0000;

}  // namespace

size_t Worker::Impl::take_submissions() {
  size_t taken = 0;
  for (const uint32_t index : contexts.in_use()) {
    Context& context = contexts[index];
    if (context.state != Context::State::kAttached) continue;
    size_t count = 0;
    const char* broken_rule = nullptr;
    while (count < kSubmissionsPerContextMax && context.submissions.available() > 0) {
      if (context.completions.room() == 0) break;  // the answer would have none
      const channel::Submission entry = context.submissions.pop();
      ++count;
      broken_rule = on_submission(context, entry);
      if (broken_rule != nullptr) break;
    }
    if (count > 0) context.submissions.publish();
    if (context.submissions.is_broken()) broken_rule = "submission ring index out of range";
    if (broken_rule != nullptr) expel(context, broken_rule);
    taken += count;
  }
  stats.worker->submissions.add(taken);
  return taken;
}

const char* Worker::Impl::on_submission(Context& context, const channel::Submission& entry) {
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
      break;
    default:
      return "unknown submission";
  }
  // A name that is no more: the session ended while the entry was under way.
  if (!is_live(context, entry.session)) return nullptr;
  const uint32_t conn = entry.session.index;
  if (entry.op == channel::Op::kSend) return on_send(context, conn, entry);
  if (entry.op == channel::Op::kSetOption) return on_set_option(conn, entry);
  if (entry.op == channel::Op::kClose) {
    close_by_client(conn);
  } else if (entry.op == channel::Op::kAbort) {
    abort_session(conn, channel::EndStatus::kAborted);
  } else {
    shut_down_session(conn);
  }
  return nullptr;
}

void Worker::Impl::shut_down_session(uint32_t conn) {
  session(conn).is_shut_down = true;
  if (session(conn).is_over) return;
  tcp::Effects effects;
  engine.on_app_shutdown(conn, now, effects);
  apply(conn, effects);
}

bool Worker::Impl::is_live(const Context& context, channel::SessionName name) const {
  if (name.index >= config.engine.connections_max || !engine.is_open(name.index)) return false;
  const session::Session& found = sessions[name.index];
  return found.generation == name.generation && found.context == contexts.index_of(context) &&
         !found.is_closed_by_client;
}

const char* Worker::Impl::on_connect(Context& context, const channel::Submission& entry) {
  const auto& open = entry.body.open;
  const Endpoint remote = endpoint_of(open.remote_address, open.remote_port);
  const Endpoint local = endpoint_of(open.local_address, open.local_port);
  uint32_t conn = tcp::kNoConn;
  const channel::EndStatus status =
      is_shutting_down ? channel::EndStatus::kShutdown
                       : open_session(contexts.index_of(context), local, remote, open.cookie, conn);
  if (status != channel::EndStatus::kOk) {
    stats.worker->connect_failures.add(1);
    return answer_open(context, channel::Event::kConnectFailed, status, open.cookie, {},
                       {local, remote});
  }
  return answer_open(context, channel::Event::kConnecting, channel::EndStatus::kOk, open.cookie,
                     name_of(conn), engine.tuple(conn));
}

const char* Worker::Impl::on_listen(Context& context, const channel::Submission& entry) {
  const auto& open = entry.body.open;
  Endpoint local = endpoint_of(open.local_address, open.local_port);
  const auto fail = [&](channel::EndStatus status) {
    return answer_open(context, channel::Event::kListenFailed, status, open.cookie, {},
                       {local, {}});
  };
  if (is_shutting_down) return fail(channel::EndStatus::kShutdown);
  if (!local.address.is_unspecified() && !routes.is_own(local.address)) {
    return fail(channel::EndStatus::kAddressUnknown);
  }
  if (local.port == 0) {
    const auto port = choose_port(local.address, Endpoint{});
    if (!port) return fail(channel::EndStatus::kNoResources);
    local.port = *port;
  }
  if (listeners.is_taken(local)) return fail(channel::EndStatus::kAddressInUse);
  const uint32_t backlog = entry.backlog == 0 ? 1 : entry.backlog;
  const uint32_t index = listeners.add({.local = local,
                                        .context = contexts.index_of(context),
                                        .cookie = open.cookie,
                                        .backlog = backlog});
  if (index == Listeners::kNone) return fail(channel::EndStatus::kNoResources);
  context.listeners.push_back(listeners, index);
  write_listener_row(index);
  return answer_open(context, channel::Event::kListening, channel::EndStatus::kOk, open.cookie,
                     {index | kListenerBit, listeners[index].generation}, {local, {}});
}

const char* Worker::Impl::on_close_listen(Context& context, const channel::Submission& entry) {
  if ((entry.session.index & kListenerBit) == 0) return "kCloseListen names no listener";
  const uint32_t index = entry.session.index & ~kListenerBit;
  if (!listeners.is_valid(index, entry.session.generation) ||
      listeners[index].context != contexts.index_of(context)) {
    return nullptr;
  }
  close_listener(context, index);
  return nullptr;
}

void Worker::Impl::close_listener(Context& context, uint32_t index) {
  context.listeners.remove(listeners, index);
  listeners.remove(index);
  write_listener_row(index);
}

const char* Worker::Impl::on_send(Context& context, uint32_t conn,
                                  const channel::Submission& entry) {
  const auto& send = entry.body.send;
  session::Session& sender = session(conn);
  if (send.bytes == 0 || send.bytes > channel::kSendBytesMax) return "kSend of a forbidden length";
  // TCP takes nothing behind a FIN: the piece would stay queued until the connection is forgotten.
  if (sender.is_shut_down) return "kSend after kShutdown";
  if (sender.sends.piece_count >= channel::kSendsOutstandingMax ||
      context.sends_under_way >= channel::kSendsPerContextMax) {
    return "too many kSend under way";
  }
  if (sender.is_over) {
    // Nothing leaves any more: finished at once, the end is (or will be) announced.
    ++sender.sends.finished_count;
    mark_dirty(conn);
    return nullptr;
  }
  std::optional<BufRef> piece;
  const char* broken_rule = client_memory.locate(contexts.index_of(context), entry, piece);
  if (broken_rule != nullptr) return broken_rule;
  if (!piece) {
    abort_session(conn, channel::EndStatus::kDeregistered);
    return nullptr;
  }
  if (!sends.try_append(sender.sends, *piece)) return "no place for another kSend";
  ++context.sends_under_way;
  sender.client_copied_tx_bytes += entry.copied_bytes;
  stats.worker->client_copied_tx_bytes.add(entry.copied_bytes);
  tcp::Effects effects;
  engine.on_app_send(conn, send.bytes, now, effects);
  apply(conn, effects);
  return nullptr;
}

const char* Worker::Impl::on_set_option(uint32_t conn, const channel::Submission& entry) {
  const channel::SessionOption option = entry.body.option.name;
  const uint32_t value = entry.body.option.value;
  tcp::ConnectionConfig wanted = engine.config(conn);
  if (!session::apply_option(option, value, wanted)) return "kSetOption of what is not allowed";
  if (session(conn).is_over) return nullptr;
  tcp::Effects effects;
  engine.configure(conn, wanted, now, effects);
  apply(conn, effects);
  return nullptr;
}

/// Slots of one session come together mostly: its window then opens once for all of them.
const char* Worker::Impl::on_release(Context& context, const channel::Submission& entry) {
  if (entry.count > channel::kReleaseSlotsMax) return "kRelease of too many slots";
  SlotLoan owner;
  uint32_t count = 0;
  const char* broken_rule = nullptr;
  for (uint32_t i = 0; i < entry.count && broken_rule == nullptr; ++i) {
    const uint32_t slot = entry.body.release.slots[i];
    if (slot & kCopySlotBit) {
      broken_rule = release_copy_block(context, slot & ~kCopySlotBit);
      continue;
    }
    const auto loan = loans.take_back(slot, contexts.index_of(context));
    if (!loan) {
      broken_rule = "kRelease of a slot that was not lent to this client";
      continue;
    }
    release_slot_memory(slot);
    if (count > 0 && !(*loan == owner)) {
      return_slots(owner, count);
      count = 0;
    }
    owner = *loan;
    ++count;
  }
  return_slots(owner, count);
  if (entry.copied_bytes > 0) count_received_copy(context, entry.session, entry.copied_bytes);
  return broken_rule;
}

void Worker::Impl::count_received_copy(const Context& context, channel::SessionName reader,
                                       uint32_t bytes) {
  stats.worker->client_copied_rx_bytes.add(bytes);
  if (is_live(context, reader)) session(reader.index).client_copied_rx_bytes += bytes;
}

void Worker::Impl::return_slots(const SlotLoan& owner, uint32_t count) {
  if (count == 0) return;
  if (is_same_session(owner.session, owner.generation)) session(owner.session).lent_slots -= count;
  return_charge(owner.session, owner.generation, count * memory.rx_slot_bytes());
}

const char* Worker::Impl::release_copy_block(Context& context, uint32_t block) {
  if (block >= context.copy_block_count || !context.copy_blocks[block].is_used) {
    return "kRelease of a copy block that was not given to this client";
  }
  const Context::CopyBlock held = context.copy_blocks[block];
  context.copy_blocks[block] = {};
  return_charge(held.session, held.generation, held.charge_bytes);
  return nullptr;
}

bool Worker::Impl::is_same_session(uint32_t conn, uint32_t generation) const {
  return engine.is_open(conn) && sessions[conn].generation == generation;
}

void Worker::Impl::return_charge(uint32_t conn, uint32_t generation, uint32_t charge_bytes) {
  if (!is_same_session(conn, generation)) return;
  tcp::Effects effects;
  engine.on_app_release(conn, charge_bytes, now, effects);
  apply(conn, effects);
  // A free slot or block may be what the next bytes waited for.
  if (engine.is_open(conn) && session(conn).has_readable) mark_dirty(conn);
}

}  // namespace lyre::worker
