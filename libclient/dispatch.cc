#include <cstring>

#include "libclient/context.h"
#include "libclient/errors.h"

/// Completions of the workers. Every value is checked before it is used: a daemon that breaks the
/// rules of the channel ends the context, not the process.
using lyre::channel::Completion;
using lyre::channel::EndStatus;
using lyre::channel::Event;
using lyre::channel::LentSlice;
using lyre::channel::Op;
using lyre::channel::Submission;

namespace {

/// Completions taken from one worker before those of the next one.
constexpr uint32_t kCompletionsPerTurnMax = 256;

int code_of(EndStatus status) {
  if (status > EndStatus::kDeregistered) return LYRE_E_RESET;
  return -static_cast<int>(status);
}

/// Why a session ended, where the daemon says it more exactly than by the code.
const char* text_of(const Completion& entry) {
  if (entry.status != EndStatus::kUnreachable) return nullptr;
  switch (entry.exact) {
    case EndStatus::kNoRoute:
      return "no route to the peer: see `lyre routes`";
    case EndStatus::kNoNeighbour:
      return "neither the peer nor the gateway answers ARP or NDP: see `lyre neighbours`";
    case EndStatus::kForbidden:
      return "the domain of this client may not talk to that peer, or not from that port";
    case EndStatus::kIcmpError:
      return "the network says that the peer cannot be reached (ICMP)";
    case EndStatus::kAddressLost:
      return "another host has the local address";
    default:
      return nullptr;
  }
}

void copy_addresses(const Completion::Body::Opened& opened, lyre_addr& local, lyre_addr& remote) {
  std::memcpy(local.address, opened.local_address, sizeof local.address);
  std::memcpy(remote.address, opened.remote_address, sizeof remote.address);
  local.port = opened.local_port;
  remote.port = opened.remote_port;
}

}  // namespace

/// Takes the completions of one worker for the context, and acts on each.
class lyre_context::Reports {
 public:
  Reports(lyre_context& context, uint32_t worker) : context_(context), worker_(worker) {}

  void take(const Completion& entry);

 private:
  void on_connecting(const Completion& entry);
  void on_connected(const Completion& entry);
  void on_connect_failed(const Completion& entry);
  void on_accepted(const Completion& entry);
  void on_send_done(lyre_session& session, const Completion& entry);
  void on_data(lyre_session* session, const Completion& entry);
  void on_ended(lyre_session& session, const Completion& entry);
  void note_loss(lyre_session& session, int error);
  void drop_unaccepted(lyre_session& session);
  bool name_session(lyre_session& session, const Completion& entry);

  lyre_context& context_;
  const uint32_t worker_;
};

size_t lyre_context::drain(uint32_t worker) {
  lyre::channel::CompletionConsumer& ring = workers_[worker].completions();
  Reports reports(*this, worker);
  uint32_t taken = 0;
  while (taken < kCompletionsPerTurnMax && ring.available() > 0) {
    reports.take(ring.pop());
    ++taken;
  }
  if (taken > 0) ring.publish();
  if (workers_[worker].is_broken()) fail(LYRE_E_DAEMON, "the daemon broke a ring's indices");
  return taken;
}

void lyre_context::Reports::take(const Completion& entry) {
  lyre_session* session = context_.workers_[worker_].find(entry.session);
  switch (entry.event) {
    case Event::kConnecting:
      return on_connecting(entry);
    case Event::kConnected:
      return on_connected(entry);
    case Event::kConnectFailed:
      return on_connect_failed(entry);
    case Event::kListening:
    case Event::kListenFailed:
      return context_.on_listening(worker_, entry);
    case Event::kAccepted:
      return on_accepted(entry);
    case Event::kData:
      return on_data(session, entry);
    case Event::kSendDone:
      if (session != nullptr) on_send_done(*session, entry);
      return;
    case Event::kPeerFinished:
      if (session == nullptr || session->is_given_up) return;
      session->is_peer_finished = true;
      if (!session->is_unaccepted()) context_.ready_.mark(session, LYRE_EVENT_PEER_FIN);
      return;
    case Event::kEnded:
      if (session != nullptr) on_ended(*session, entry);
      return;
    case Event::kNone:
      break;
  }
  context_.fail(LYRE_E_DAEMON, "the daemon sent an event that this library does not know");
}

bool lyre_context::Reports::name_session(lyre_session& session, const Completion& entry) {
  lyre_session** place = context_.workers_[session.worker].place(entry.session.index);
  if (place == nullptr || *place != nullptr) {
    context_.fail(LYRE_E_DAEMON, "the daemon named a session out of turn");
    return false;
  }
  *place = &session;
  session.name = entry.session;
  session.state = LYRE_OPEN;
  copy_addresses(entry.body.opened, session.local, session.remote);
  return true;
}

/// The name is needed to abort a session that the user closes before it is open. It is not entered
/// in the worker's table, because another worker may complete the connect, and this one may use the
/// index again.
void lyre_context::Reports::on_connecting(const Completion& entry) {
  const auto found = context_.connecting_.find(entry.body.opened.cookie);
  if (found == context_.connecting_.end()) return;  // another worker has completed it already
  lyre_session* session = found->second;
  session->worker = worker_;
  session->name = entry.session;
  if (session->is_given_up) context_.give_up(session, Op::kAbort);
}

void lyre_context::Reports::on_connected(const Completion& entry) {
  const auto found = context_.connecting_.find(entry.body.opened.cookie);
  if (found == context_.connecting_.end()) {
    return context_.fail(LYRE_E_DAEMON, "the daemon connected what was not asked for");
  }
  lyre_session* session = found->second;
  context_.connecting_.erase(found);
  session->cookie = 0;
  session->worker = worker_;  // which may be another than was asked: see docs/design/channel_abi.md
  if (!name_session(*session, entry)) return;
  if (session->is_given_up) {
    context_.give_up(session, Op::kAbort);
  } else {
    context_.ready_.mark(session, LYRE_EVENT_CONNECTED);
  }
}

void lyre_context::Reports::on_connect_failed(const Completion& entry) {
  const auto found = context_.connecting_.find(entry.body.opened.cookie);
  if (found == context_.connecting_.end()) return;
  lyre_session* session = found->second;
  context_.connecting_.erase(found);
  session->cookie = 0;
  session->state = LYRE_ENDED;
  session->error =
      entry.status == EndStatus::kOk ? static_cast<int>(LYRE_E_ABORTED) : code_of(entry.status);
  session->error_text = text_of(entry);
  if (session->is_given_up) return context_.remove_session(session);
  context_.ready_.mark(session, LYRE_EVENT_ENDED);
}

void lyre_context::Reports::on_accepted(const Completion& entry) {
  lyre_session* session = context_.add_session(worker_);
  if (session == nullptr) return context_.fail(LYRE_E_NORESOURCES, "no memory for a session");
  if (!name_session(*session, entry)) return;
  const auto found = context_.listeners_.find(entry.body.opened.cookie);
  // The listener was closed meanwhile, or its owner does not accept.
  if (found == context_.listeners_.end() || found->second->is_full())
    return context_.give_up(session, Op::kAbort);
  session->listener = found->second;
  found->second->unaccepted.push(session);
  context_.ready_.mark(found->second, LYRE_EVENT_ACCEPTABLE);
}

void lyre_context::Reports::on_send_done(lyre_session& session, const Completion& entry) {
  const Completion::Body::SendDone& news = entry.body.send_done;
  const uint64_t count = news.descriptors - session.sends_finished;
  if (count > session.sends.size()) {
    return context_.fail(LYRE_E_DAEMON, "the daemon finished sends that were never made");
  }
  note_loss(session, code_of(entry.status));
  context_.finish_sends(session, count);
  const uint32_t acked_bytes_max = session.sends.is_empty() ? 0 : session.sends.front().bytes - 1;
  if (news.acked_bytes > acked_bytes_max || news.acked_bytes < session.front_acked_bytes) {
    return context_.fail(LYRE_E_DAEMON, "the daemon acknowledged bytes that were never sent");
  }
  session.unacked_bytes -= news.acked_bytes - session.front_acked_bytes;
  session.front_acked_bytes = news.acked_bytes;
  session.rtt_min_us = news.rtt_min_us;
  session.rto_us = news.rto_us;
  session.is_window_closed = news.is_window_closed != 0;
  if (count == 0) return;
  // An event also for closed sessions: lyre_block_alloc() may wait for their blocks.
  context_.ready_.note_news();
  if (!session.is_given_up && !session.is_unaccepted())
    context_.ready_.mark(&session, LYRE_EVENT_SENT);
}

void lyre_context::Reports::on_data(lyre_session* session, const Completion& entry) {
  if (entry.count > lyre::channel::kLentSlicesMax) {
    return context_.fail(LYRE_E_DAEMON, "the daemon lent more slices than fit an entry");
  }
  for (uint32_t i = 0; i < entry.count; ++i) {
    const LentSlice& slice = entry.body.data[i];
    const uint8_t* data = context_.memory_.lent_bytes(entry.pool, slice);
    if (data == nullptr)
      return context_.fail(LYRE_E_DAEMON, "the daemon lent memory that is not there");
    if (session == nullptr || session->is_given_up || slice.bytes == 0) {
      context_.workers_[worker_].release(entry.session, slice.slot, 0);
      continue;
    }
    session->received.push({data, slice.bytes, slice.slot});
    session->readable_bytes += slice.bytes;
  }
  if (session == nullptr || session->is_given_up || session->is_unaccepted()) return;
  context_.ready_.mark(session, LYRE_EVENT_DATA);
}

void lyre_context::Reports::on_ended(lyre_session& session, const Completion& entry) {
  lyre_session** place = context_.workers_[session.worker].place(session.name.index);
  if (place != nullptr && *place == &session) *place = nullptr;
  session.state = LYRE_ENDED;
  session.error = code_of(entry.status);
  session.error_text = text_of(entry);
  note_loss(session, session.error);
  context_.finish_sends(session, session.sends.size());
  context_.ready_.note_news();
  if (session.is_given_up) return context_.remove_session(&session);
  if (!session.is_unaccepted()) return context_.ready_.mark(&session, LYRE_EVENT_ENDED);
  if (session.error != 0) drop_unaccepted(session);
}

/// Nobody can ask a closed session for its error: lyre_drain() returns it. 0 is none.
void lyre_context::Reports::note_loss(lyre_session& session, int error) {
  if (error == 0 || session.sends.is_empty()) return;
  session.dropped_with = error;
  int& loss = context_.send_totals_.loss;
  const bool is_unasked = session.is_given_up && !session.is_aborted;
  if (is_unasked && loss == 0) loss = error;
}

/// The daemon has ended it, so it no longer counts in a limit there. Its receive slots go back.
void lyre_context::Reports::drop_unaccepted(lyre_session& session) {
  lyre_listener* listener = session.listener;
  listener->unaccepted.remove(&session);
  if (listener->unaccepted.is_empty()) context_.ready_.unmark(listener);
  context_.give_up(&session, Op::kAbort);
}
