#include "libclient/session.h"

#include <cstring>
#include <new>
#include <utility>

#include "libclient/address.h"
#include "libclient/context.h"
#include "libclient/errors.h"
#include "libclient/sized_struct.h"

using lyre::channel::Op;
using lyre::channel::Submission;

lyre_session* lyre_context::add_session(uint32_t worker) {
  auto* session = new (std::nothrow) lyre_session(this);
  if (session == nullptr) return nullptr;
  session->worker = worker;
  session->place = static_cast<uint32_t>(sessions_.size());
  sessions_.push_back(session);
  return session;
}

void lyre_context::expect_connection(lyre_session* session) {
  session->cookie = ++last_cookie_;
  connecting_.emplace(session->cookie, session);
}

void lyre_context::remove_session(lyre_session* session) {
  ready_.forget_refusal(*session);
  ready_.unmark(session);
  finish_sends(*session, session->sends.size());
  if (session->cookie != 0) connecting_.erase(session->cookie);
  lyre_session** named = workers_[session->worker].place(session->name.index);
  if (named != nullptr && *named == session) *named = nullptr;
  sessions_[session->place] = sessions_.back();
  sessions_[session->place]->place = session->place;
  sessions_.pop_back();
  delete session;
}

void lyre_context::finish_sends(lyre_session& session, uint64_t count) {
  if (count > 0) ready_.note_room();
  for (; count > 0; --count) {
    const lyre::client::SentBlock block = session.sends.pop();
    if (block.region == 0) {
      arena_.free(block.offset);
      session.arena_bytes -= lyre::client::Arena::block_bytes_for(block.bytes);
    } else {
      --session.region_sends;
    }
    session.unacked_bytes -= block.bytes - std::exchange(session.front_acked_bytes, 0);
    ++session.sends_finished;
    --send_totals_.under_way;
    if (block.tag != 0) session.tags.push(block.tag);
  }
}

void lyre_context::give_up(lyre_session* session, Op op) {
  ready_.unmark(session);
  session->is_given_up = true;
  session->listener = nullptr;
  session->readable_bytes = 0;
  while (!session->received.is_empty()) release_slot(*session, session->received.pop().slot);
  while (!session->held_slots.is_empty()) release_slot(*session, session->held_slots.pop());
  workers_[session->worker].flush_releases();
  if (session->state == LYRE_ENDED) {
    remove_session(session);
    return;
  }
  if (session->state == LYRE_CONNECTING) {
    if (session->name == lyre::channel::SessionName{}) return;  // on_connecting() does it
    op = Op::kAbort;
  }
  session->is_aborted = op == Op::kAbort;
  if (!session->is_aborted && send_totals_.loss == 0) send_totals_.loss = session->dropped_with;
  Submission entry;
  entry.op = op;
  entry.session = session->name;
  workers_[session->worker].submit(entry);
}

int lyre_next_event(lyre_context* context, lyre_event* out) {
  using namespace lyre::client;
  if (context == nullptr || out == nullptr) {
    return fail_static(LYRE_E_INVALID, "no context, or no place for the event");
  }
  const lyre_event event = context->ready().first();
  if (const int code = write_sized(event, out, "lyre_event"); code != 0) return code;
  if (event.happened == 0) return 0;
  context->ready().drop_first();
  return 1;
}

int lyre_connect(lyre_context* context, const lyre_addr* local, const lyre_addr* remote,
                 lyre_session** out) {
  using namespace lyre::client;
  if (context == nullptr || remote == nullptr || out == nullptr) {
    return fail(LYRE_E_INVALID, "no context, no address or no place for the session");
  }
  *out = nullptr;
  if (const int code = context->check(); code != 0) return code;
  if (const int code = check_reserved(*remote); code != 0) return code;
  if (const int code = local != nullptr ? check_reserved(*local) : 0; code != 0) return code;
  if (remote->port == 0 || is_unspecified(*remote)) {
    return fail(LYRE_E_INVALID, "a connection needs the peer's address and port");
  }
  lyre_session* session = context->add_session(context->pick_worker());
  if (session == nullptr) return fail(LYRE_E_NORESOURCES, "no memory for a session");
  context->expect_connection(session);
  session->remote = *remote;
  if (local != nullptr) session->local = *local;
  Submission entry;
  entry.op = Op::kConnect;
  entry.body.open = {};
  entry.body.open.cookie = session->cookie;
  std::memcpy(entry.body.open.local_address, session->local.address, 16);
  std::memcpy(entry.body.open.remote_address, remote->address, 16);
  entry.body.open.local_port = session->local.port;
  entry.body.open.remote_port = remote->port;
  if (!context->worker(session->worker).try_submit(entry)) {
    context->remove_session(session);
    lyre_wake_workers(context);
    return fail_static(LYRE_E_AGAIN, "the worker's submission ring is full");
  }
  *out = session;
  return 0;
}

int lyre_state(const lyre_session* session) {
  return session != nullptr ? session->state : static_cast<int>(LYRE_ENDED);
}

int lyre_session_error(const lyre_session* session) {
  if (session == nullptr) return lyre::client::fail_static(LYRE_E_INVALID, "no session");
  if (session->error == 0) return 0;
  // What ended the context has a text of its own.
  return session->error == session->context->check() ? session->error : session->fail();
}

int lyre_session_addrs(const lyre_session* session, lyre_addr* local, lyre_addr* remote) {
  if (session == nullptr) return lyre::client::fail_static(LYRE_E_INVALID, "no session");
  if (local != nullptr) *local = session->local;
  if (remote != nullptr) *remote = session->remote;
  return 0;
}

void lyre_set_user(lyre_session* session, void* user) {
  if (session != nullptr) session->user = user;
}

void* lyre_user(const lyre_session* session) {
  return session != nullptr ? session->user : nullptr;
}

lyre_context* lyre_session_context(const lyre_session* session) {
  return session != nullptr ? session->context : nullptr;
}

static_assert(LYRE_OPTION_NODELAY == static_cast<int>(lyre::channel::SessionOption::kNodelay) &&
              LYRE_OPTION_HOP_LIMIT + 1 == static_cast<int>(lyre::channel::SessionOption::kCount));

int lyre_set_option(lyre_session* session, lyre_option option, uint32_t value) {
  using namespace lyre::client;
  if (session == nullptr) return fail_static(LYRE_E_INVALID, "no session");
  const auto name = static_cast<lyre::channel::SessionOption>(option);
  if (!lyre::channel::is_allowed(name, value)) {
    return fail(LYRE_E_INVALID, "session option %d cannot be %u: see lyre_option", option, value);
  }
  if (const int code = session->context->check(); code != 0) return code;
  if (session->state == LYRE_CONNECTING) {
    return fail_static(LYRE_E_NOTCONNECTED, "the handshake is not finished");
  }
  if (session->state == LYRE_ENDED) return 0;
  Submission entry;
  entry.op = Op::kSetOption;
  entry.session = session->name;
  entry.body.option = {.name = name, .value = value};
  session->context->worker(session->worker).submit(entry);
  return 0;
}

int lyre_shutdown(lyre_session* session) {
  using namespace lyre::client;
  if (session == nullptr) return fail_static(LYRE_E_INVALID, "no session");
  if (const int code = session->context->check(); code != 0) return code;
  if (session->state == LYRE_ENDED && session->error != 0) {
    return session->fail();
  }
  if (session->state == LYRE_CONNECTING) {
    return fail_static(LYRE_E_NOTCONNECTED, "the handshake is not finished");
  }
  if (session->is_send_shut || session->state == LYRE_ENDED) return 0;
  session->is_send_shut = true;
  Submission entry;
  entry.op = Op::kShutdown;
  entry.session = session->name;
  session->context->worker(session->worker).submit(entry);
  return 0;
}

void lyre_close(lyre_session* session) {
  if (session != nullptr) session->context->give_up(session, Op::kClose);
}

void lyre_abort(lyre_session* session) {
  if (session != nullptr) session->context->give_up(session, Op::kAbort);
}
