#include <algorithm>
#include <cstring>
#include <new>

#include "libclient/address.h"
#include "libclient/clock.h"
#include "libclient/context.h"
#include "libclient/errors.h"

using lyre::channel::Completion;
using lyre::channel::EndStatus;
using lyre::channel::Event;
using lyre::channel::Op;
using lyre::channel::Submission;
using Part = lyre_listener::Part;

namespace {

/// Attempts with a port of worker 0's choice, when another worker has that port in use.
constexpr int kPortChoicesMax = 4;

Submission close_listener_entry(lyre::channel::SessionName name) {
  Submission entry;
  entry.op = Op::kCloseListen;
  entry.session = name;
  return entry;
}

void ask_to_listen(lyre_listener& listener, uint32_t worker) {
  Submission entry;
  entry.op = Op::kListen;
  entry.backlog = listener.backlog;
  entry.body.open = {};
  entry.body.open.cookie = listener.cookie;
  std::memcpy(entry.body.open.local_address, listener.local.address, 16);
  entry.body.open.local_port = listener.local.port;
  listener.workers[worker].part = Part::kAsked;
  listener.context->worker(worker).submit(entry);
}

/// Rounded up: 0 when the time is over.
int left_ms(const lyre_listener& listener) {
  const int64_t end_ns = listener.began_ns + int64_t{listener.patience_ms} * 1'000'000;
  const int64_t left_ns = std::max(end_ns - lyre::client::now_ns(), int64_t{0});
  return static_cast<int>((left_ns + 999'999) / 1'000'000);
}

/// Waits until every worker has answered. 0 when all listen.
int await_answers(lyre_listener& listener) {
  const int waited = listener.context->work_until(left_ms(listener), [&] {
    return std::none_of(listener.workers.begin(), listener.workers.end(),
                        [](const auto& on) { return on.part == Part::kAsked; });
  });
  if (waited < 0) return waited;
  if (waited == 0) return lyre::client::fail_unanswered(listener.patience_ms);
  for (const auto& on : listener.workers) {
    if (on.part == Part::kFailed) {
      char text[64] = "";
      lyre_addr_format(&listener.local, text, sizeof text);
      const char* why = on.is_forbidden
                            ? "the domain of this client may not listen on that address and port"
                            : lyre_strerror(on.error);
      return lyre::client::fail(on.error, "cannot listen on %s: %s", text, why);
    }
  }
  return 0;
}

/// Worker 0 first: it chooses the port where the caller gave none, and decides between two clients
/// that listen on one port at the same time.
int listen_everywhere(lyre_listener& listener) {
  ask_to_listen(listener, 0);
  if (const int code = await_answers(listener); code != 0) return code;
  for (uint32_t i = 1; i < listener.workers.size(); ++i) ask_to_listen(listener, i);
  return await_answers(listener);
}

/// One attempt of a call that began then.
int try_to_listen(lyre_context& context, const lyre_addr& local, int backlog, int64_t began_ns,
                  lyre_listener** out) {
  lyre_listener* listener = context.add_listener();
  if (listener == nullptr)
    return lyre::client::fail(LYRE_E_NORESOURCES, "no memory for a listener");
  listener->local = local;
  listener->backlog = static_cast<uint16_t>(std::clamp(backlog, 1, int{UINT16_MAX}));
  listener->began_ns = began_ns;
  const int code = listen_everywhere(*listener);
  if (code == 0) {
    *out = listener;
  } else {
    context.remove_listener(listener);
  }
  return code;
}

}  // namespace

lyre_listener* lyre_context::add_listener() {
  auto* listener = new (std::nothrow) lyre_listener(this);
  if (listener == nullptr) return nullptr;
  listener->patience_ms = patience_ms_;
  listener->cookie = ++last_cookie_;
  listener->workers.resize(worker_count());
  listeners_.emplace(listener->cookie, listener);
  return listener;
}

void lyre_context::remove_listener(lyre_listener* listener) {
  ready_.unmark(listener);
  // Later answers and connections for this cookie are closed in on_listening() and on_accepted().
  listeners_.erase(listener->cookie);
  for (uint32_t i = 0; i < worker_count(); ++i) {
    const lyre_listener::OnWorker& on = listener->workers[i];
    if (on.part == Part::kAsked) ++abandoned_listens_;
    if (on.part == Part::kListening) workers_[i].submit(close_listener_entry(on.name));
  }
  while (!listener->unaccepted.is_empty()) give_up(listener->unaccepted.pop(), Op::kAbort);
  delete listener;
}

void lyre_context::on_listening(uint32_t worker, const Completion& entry) {
  const bool is_good = entry.event == Event::kListening;
  const auto found = listeners_.find(entry.body.opened.cookie);
  if (found == listeners_.end()) {
    if (abandoned_listens_ > 0) --abandoned_listens_;
    if (is_good) workers_[worker].submit(close_listener_entry(entry.session));
    return;
  }
  lyre_listener& listener = *found->second;
  lyre_listener::OnWorker& on = listener.workers[worker];
  if (on.part != Part::kAsked) return;
  if (!is_good) {
    on.part = Part::kFailed;
    on.error = entry.status == EndStatus::kOk || entry.status > EndStatus::kShutdown
                   ? static_cast<int>(LYRE_E_NORESOURCES)
                   : -static_cast<int>(entry.status);
    on.is_forbidden = entry.exact == EndStatus::kForbidden;
    return;
  }
  on.part = Part::kListening;
  on.name = entry.session;
  if (worker != 0) return;
  std::memcpy(listener.local.address, entry.body.opened.local_address, 16);
  listener.local.port = entry.body.opened.local_port;
}

int lyre_listen(lyre_context* context, const lyre_addr* local, int backlog, lyre_listener** out) {
  using namespace lyre::client;
  if (context == nullptr || local == nullptr || out == nullptr) {
    return fail(LYRE_E_INVALID, "no context, no address or no place for the listener");
  }
  *out = nullptr;
  if (const int code = context->check(); code != 0) return code;
  if (const int code = check_reserved(*local); code != 0) return code;
  const int64_t began_ns = now_ns();
  for (int choice = 1;; ++choice) {
    const size_t abandoned = context->abandoned_listens();
    const int code = try_to_listen(*context, *local, backlog, began_ns, out);
    if (code != LYRE_E_ADDRINUSE) return code;
    // An earlier call that gave up may have it. That answer came before this one, and its end was
    // submitted at once: the next attempt comes behind it.
    const bool may_be_own = context->abandoned_listens() < abandoned;
    const bool may_choose_again = local->port == 0 && choice < kPortChoicesMax;
    if (!may_be_own && !may_choose_again) return code;
  }
}

int lyre_listener_addr(lyre_listener* listener, lyre_addr* out) {
  if (listener == nullptr || out == nullptr) {
    return lyre::client::fail_static(LYRE_E_INVALID, "no listener, or no place for its address");
  }
  *out = listener->local;
  return 0;
}

int lyre_accept(lyre_listener* listener, lyre_session** out) {
  using namespace lyre::client;
  if (listener == nullptr || out == nullptr) {
    return fail_static(LYRE_E_INVALID, "no listener, or no place for the session");
  }
  *out = nullptr;
  lyre_context* context = listener->context;
  if (const int code = context->check(); code != 0) return code;
  if (listener->unaccepted.is_empty()) {
    return fail_static(LYRE_E_AGAIN, "no connection to accept");
  }
  lyre_session* session = listener->unaccepted.pop();
  session->listener = nullptr;
  // Its events begin with what happened before the accept.
  uint32_t happened = 0;
  if (session->readable_bytes > 0) happened |= LYRE_EVENT_DATA;
  if (session->is_peer_finished) happened |= LYRE_EVENT_PEER_FIN;
  if (session->state != LYRE_OPEN) happened |= LYRE_EVENT_ENDED;
  if (happened != 0) context->ready().mark(session, happened);
  *out = session;
  return 0;
}

void lyre_close_listener(lyre_listener* listener) {
  if (listener != nullptr) listener->context->remove_listener(listener);
}
