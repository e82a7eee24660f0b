#include <cstring>

#include "libclient/context.h"
#include "libclient/errors.h"

/// What the workers report. Every value is checked before it is used: a daemon that breaks the
/// channel's rules ends the context, not the process.
using lyre::channel::Completion;
using lyre::channel::EndStatus;
using lyre::channel::Event;
using lyre::channel::LentSlice;
using lyre::channel::Op;
using lyre::channel::Submission;

namespace {

/// Completions taken from one worker before the next one has its turn.
constexpr uint32_t kCompletionsPerTurnMax = 256;

int code_of(EndStatus status) {
  if (status > EndStatus::kDeregistered) return LYRE_E_RESET;
  return -static_cast<int>(status);
}

void copy_addresses(const Completion::Body::Opened& opened, lyre_addr& local, lyre_addr& remote) {
  std::memcpy(local.address, opened.local_address, sizeof local.address);
  std::memcpy(remote.address, opened.remote_address, sizeof remote.address);
  local.port = opened.local_port;
  remote.port = opened.remote_port;
}

}  // namespace

size_t lyre_context::drain(uint32_t worker) {
  lyre::channel::CompletionConsumer& ring = workers_[worker].completions();
  uint32_t taken = 0;
  while (taken < kCompletionsPerTurnMax && ring.available() > 0) {
    on_completion(worker, ring.pop());
    ++taken;
  }
  if (taken > 0) ring.publish();
  if (workers_[worker].is_broken()) fail(LYRE_E_DAEMON, "the daemon broke a ring's indices");
  return taken;
}

void lyre_context::on_completion(uint32_t worker, const Completion& entry) {
  lyre_session* session = workers_[worker].find(entry.session);
  switch (entry.event) {
    case Event::kConnecting:
      return on_connecting(worker, entry);
    case Event::kConnected:
      return on_connected(worker, entry);
    case Event::kConnectFailed:
      return on_connect_failed(entry);
    case Event::kListening:
    case Event::kListenFailed:
      return on_listening(worker, entry);
    case Event::kAccepted:
      return on_accepted(worker, entry);
    case Event::kData:
      return on_data(worker, session, entry);
    case Event::kSendDone:
      if (session != nullptr) on_send_done(*session, entry.body.send_done);
      return;
    case Event::kPeerFinished:
      if (session == nullptr || session->is_given_up) return;
      session->is_peer_finished = true;
      if (!session->is_unaccepted()) mark_ready(session, LYRE_EVENT_PEER_FIN);
      return;
    case Event::kEnded:
      if (session != nullptr) on_ended(*session, entry.status);
      return;
    case Event::kNone:
      break;
  }
  fail(LYRE_E_DAEMON, "the daemon sent an event that this library does not know");
}

bool lyre_context::name_session(lyre_session& session, const Completion& entry) {
  lyre_session** place = workers_[session.worker].place(entry.session.index);
  if (place == nullptr || *place != nullptr) {
    fail(LYRE_E_DAEMON, "the daemon named a session out of turn");
    return false;
  }
  *place = &session;
  session.name = entry.session;
  session.state = LYRE_OPEN;
  copy_addresses(entry.body.opened, session.local, session.remote);
  return true;
}

/// Only whoever gives up before the handshake is through needs this name. It stays out of the
/// worker's table: the answer may come from another worker, and this one may use the index again.
void lyre_context::on_connecting(uint32_t worker, const Completion& entry) {
  const auto found = connecting_.find(entry.body.opened.cookie);
  if (found == connecting_.end()) return;  // another worker was faster with the answer
  lyre_session* session = found->second;
  session->worker = worker;
  session->name = entry.session;
  if (session->is_given_up) give_up(session, Op::kAbort);
}

void lyre_context::on_connected(uint32_t worker, const Completion& entry) {
  const auto found = connecting_.find(entry.body.opened.cookie);
  if (found == connecting_.end()) {
    return fail(LYRE_E_DAEMON, "the daemon connected what was not asked for");
  }
  lyre_session* session = found->second;
  connecting_.erase(found);
  session->cookie = 0;
  session->worker = worker;  // which may be another than was asked: see docs/design/channel_abi.md
  if (!name_session(*session, entry)) return;
  if (session->is_given_up) {
    give_up(session, Op::kAbort);
  } else {
    mark_ready(session, LYRE_EVENT_CONNECTED);
  }
}

void lyre_context::on_connect_failed(const Completion& entry) {
  const auto found = connecting_.find(entry.body.opened.cookie);
  if (found == connecting_.end()) return;
  lyre_session* session = found->second;
  connecting_.erase(found);
  session->cookie = 0;
  session->state = LYRE_ENDED;
  session->error =
      entry.status == EndStatus::kOk ? static_cast<int>(LYRE_E_ABORTED) : code_of(entry.status);
  if (session->is_given_up) return remove_session(session);
  mark_ready(session, LYRE_EVENT_ENDED);
}

void lyre_context::on_accepted(uint32_t worker, const Completion& entry) {
  lyre_session* session = add_session(worker);
  if (session == nullptr) return fail(LYRE_E_NORESOURCES, "no memory for a session");
  if (!name_session(*session, entry)) return;
  const auto found = listeners_.find(entry.body.opened.cookie);
  if (found == listeners_.end()) return give_up(session, Op::kAbort);  // closed in the meantime
  session->listener = found->second;
  found->second->backlog.push(session);
  mark_ready(found->second, LYRE_EVENT_ACCEPTABLE);
}

void lyre_context::on_send_done(lyre_session& session, const Completion::Body::SendDone& news) {
  const uint64_t count = news.descriptors - session.sends_finished;
  if (count > session.sends.size()) {
    return fail(LYRE_E_DAEMON, "the daemon finished sends that were never made");
  }
  finish_sends(session, count);
  const uint32_t acked_bytes_max = session.sends.is_empty() ? 0 : session.sends.front().bytes - 1;
  if (news.acked_bytes > acked_bytes_max || news.acked_bytes < session.front_acked_bytes) {
    return fail(LYRE_E_DAEMON, "the daemon acknowledged bytes that were never sent");
  }
  session.unacked_bytes -= news.acked_bytes - session.front_acked_bytes;
  session.front_acked_bytes = news.acked_bytes;
  session.rtt_min_us = news.rtt_min_us;
  if (count == 0) return;
  // Sends of sessions that the user gave up still free blocks that somebody may wait for.
  has_news_ = true;
  if (!session.is_given_up && !session.is_unaccepted()) mark_ready(&session, LYRE_EVENT_SENT);
}

const uint8_t* lyre_context::lent_bytes(uint8_t pool, const LentSlice& slice) const {
  if (pool == lyre::channel::kPoolContext) {
    const uint64_t end = copy_offset_ + copy_bytes_;
    const bool is_inside =
        slice.offset >= copy_offset_ && slice.offset <= end && slice.bytes <= end - slice.offset;
    return is_inside ? memory_.data() + slice.offset : nullptr;
  }
  if (pool >= pools_.size() || !pools_[pool].holds(slice.offset, slice.bytes)) return nullptr;
  return pools_[pool].data() + slice.offset;
}

void lyre_context::on_data(uint32_t worker, lyre_session* session, const Completion& entry) {
  if (entry.count > lyre::channel::kLentSlicesMax) {
    return fail(LYRE_E_DAEMON, "the daemon lent more slices than fit an entry");
  }
  for (uint32_t i = 0; i < entry.count; ++i) {
    const LentSlice& slice = entry.body.data[i];
    const uint8_t* data = lent_bytes(entry.pool, slice);
    if (data == nullptr) return fail(LYRE_E_DAEMON, "the daemon lent memory that is not there");
    if (session == nullptr || session->is_given_up || slice.bytes == 0) {
      workers_[worker].release(entry.session, slice.slot, 0);
      continue;
    }
    session->received.push({data, slice.bytes, slice.slot});
    session->readable_bytes += slice.bytes;
  }
  if (session == nullptr || session->is_given_up || session->is_unaccepted()) return;
  mark_ready(session, LYRE_EVENT_DATA);
}

void lyre_context::on_ended(lyre_session& session, EndStatus status) {
  lyre_session** place = workers_[session.worker].place(session.name.index);
  if (place != nullptr && *place == &session) *place = nullptr;
  finish_sends(session, session.sends.size());
  session.state = LYRE_ENDED;
  session.error = code_of(status);
  has_news_ = true;
  if (session.is_given_up) return remove_session(&session);
  if (!session.is_unaccepted()) mark_ready(&session, LYRE_EVENT_ENDED);
}
