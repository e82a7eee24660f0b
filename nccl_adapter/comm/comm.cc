#include "nccl_adapter/comm/comm.h"

#include <algorithm>
#include <utility>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/protocol/frame.h"

namespace lyre::nccl_adapter {

using nccl_abi::Result;

std::string Peer::describe() const {
  return "host " + host + " (" + address + "), process " + std::to_string(pid);
}

Comm::Comm(Environment* environment, const Nonce& id, Peer peer, size_t lanes)
    : peer_(std::move(peer)), environment_(environment), id_(id), alive_ns_(environment->now_ns()) {
  for (size_t i = 0; i < lanes; ++i) {
    lanes_.push_back(std::make_unique<Lane>(this, static_cast<uint16_t>(i)));
  }
}

Comm::~Comm() {
  for (const auto& registration : registrations_) let_go(*registration);
}

bool Comm::is_any_up() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->is_up(); });
}

Result Comm::post(void* data, uint64_t bytes, const Registration* registration,
                  const Operation& operation, Request** out) {
  *out = nullptr;
  if (has_failed()) {
    // A rank that is about to close with requests in flight must be able to post them although its
    // peer closed a moment earlier: test() returns the error.
    if (result_ == Result::kRemoteError) *out = post_request(data, bytes);
    return *out != nullptr ? Result::kSuccess : report();
  }
  Request* request = post_request(data, bytes);
  if (request != nullptr) {
    request->posted_ns = environment_->now_ns();
    request->operation = last_operation_ = operation;
    const auto* from = static_cast<const uint8_t*>(data);
    const bool is_inside = registration != nullptr && from >= registration->base &&
                           from + bytes <= registration->base + registration->bytes;
    if (is_inside) request->memory = registration->memory;
  }
  pump();
  // A failure that this pump met belongs to the request: test() will tell.
  *out = request;
  return Result::kSuccess;
}

Result Comm::test(Request* request, int* done, int* sizes) {
  *done = 0;
  if (request->state == Request::State::kFree) {
    log_warn("test() of a request that is not in use (it was done before)");
    return Result::kInvalidUsage;
  }
  if (request->state == Request::State::kActive) pump();
  if (request->state == Request::State::kDone) {
    *done = 1;
    if (sizes != nullptr) *sizes = static_cast<int>(request->bytes);
    release_request(request);
    return Result::kSuccess;
  }
  return has_failed() ? report() : Result::kSuccess;
}

Registration* Comm::add_registration(const void* data, uint64_t bytes) {
  Memory* memory = is_sender() ? environment_->take_memory(data, bytes) : nullptr;
  registrations_.push_back(std::make_unique<Registration>(
      Registration{static_cast<const uint8_t*>(data), bytes, memory}));
  return registrations_.back().get();
}

Result Comm::remove_registration(const Registration* registration) {
  const auto it = std::find_if(registrations_.begin(), registrations_.end(),
                               [&](const auto& own) { return own.get() == registration; });
  if (it == registrations_.end()) {
    log_warn("deregMr() of a handle that this comm does not know");
    return Result::kInvalidUsage;
  }
  // Memory is only touched under the lock: letting go means not to touch it again.
  if (!has_failed() && touches(registration->base, registration->bytes)) {
    is_reported_ = true;  // the caller's own doing needs no warning
    begin_close();
    fail(Result::kInternalError, "its memory was deregistered with requests in flight");
  }
  const std::unique_ptr<Registration> own = std::move(*it);
  registrations_.erase(it);
  let_go(*own);
  return Result::kSuccess;
}

// What the peer's process has placed, its TCP has acknowledged or will in a moment: worth a wait,
// because letting go of unacknowledged memory ends the stream.
void Comm::let_go(const Registration& registration) {
  if (registration.memory == nullptr) return;
  const lyre_region* region = registration.memory->region;
  if (is_any_up() && region != nullptr && registration.memory->users == 1) {
    const int64_t deadline_ns = environment_->now_ns() + kDeregisterWaitNs;
    while (!is_close_done() && environment_->now_ns() < deadline_ns) {
      if (environment_->progress_and_pause() != Result::kSuccess) break;
    }
    for (const auto& lane : lanes_) {
      if (lane->is_up() && lane->stream.is_blocked_in(region)) drop_lane(*lane);
    }
  }
  environment_->give_back_memory(registration.memory);
}

void Comm::pump() {
  if (has_failed() || !environment_->is_attached()) return;
  for (const auto& lane : lanes_) {
    if (!lane->is_up()) continue;
    pump_in(*lane);
    if (has_failed()) return;
  }
  pump_out();
}

void Comm::pump_in(Lane& lane) {
  for (int round = 0; round < kTakeRoundsMax * kSlicesPerTake; ++round) {
    std::span<const uint8_t> bytes;
    const Io io = lane.stream.peek(&bytes);
    if (io == Io::kFailed || io == Io::kFinished) return on_broken(lane, io);
    if (io != Io::kOk) return;
    lane.is_heard = true;
    if (!take(lane, bytes)) return;
    lane.stream.consume(bytes.size());
  }
  lane.stream.release();
}

// The last grant may be there, or the FIN that says why the peer resets.
void Comm::on_send_failed(Lane& lane) {
  pump_in(lane);
  if (!has_failed() && lane.is_up()) on_broken(lane, Io::kFailed);
}

void Comm::on_broken(Lane& lane, Io how) {
  const int code = how == Io::kFinished ? 0 : lane.stream.error();
  // With the daemon every session is gone; all of them are made anew when it is back.
  if (environment_->note_daemon_error(code)) return;
  if (how == Io::kFinished) (is_closing_ ? is_answered_ : has_peer_ended_) = true;
  trouble_ = how == Io::kFinished ? "the connection ended without a goodbye"
                                  : std::string("the connection ended: ") + lyre_strerror(code);
  if (!lane.path_text.empty()) trouble_ += " (" + lane.path_text + ")";
  // A reset is an answer of the peer's host.
  if (code != LYRE_E_TIMEDOUT && code != LYRE_E_UNREACHABLE) alive_ns_ = environment_->now_ns();
  drop_lane(lane);
  judge_end();
}

void Comm::note_peer_ended() {
  has_peer_ended_ = true;
  judge_end();
}

// Plugins say goodbye before they close, and a daemon that stops or is restarted resets: only a
// daemon whose client is gone ends a connection in order without a goodbye. What was under way over
// other lanes still arrives before their end.
void Comm::judge_end() {
  if (!has_peer_ended_ || is_any_up() || is_answer_due()) return;
  fail(Result::kRemoteError, "its process ended, or gave up, without closing the connection");
}

void Comm::drop_lane(Lane& lane) {
  lane.drop();
  on_lane_lost(lane);
}

void Comm::tick(int64_t now_ns) {
  if (has_failed()) return;
  for (const auto& lane : lanes_) {
    if (lane->is_up() && lane->look(now_ns)) alive_ns_ = now_ns;
  }
  watch(now_ns);
  if (has_failed()) return;
  ask_for_life(now_ns);
  judge_end();
  if (!has_failed()) judge_absence(now_ns);
}

// An idle sender asks more seldom, but it must: a receiver that lost its streams can only wait, and
// loses patience.
int64_t Comm::ping_ns() const {
  if (active() > 0) return kPingNs;
  return is_sender() && !is_closing_ ? patience_ns(environment_->settings()) / 3 : INT64_MAX;
}

// A host that vanished acknowledges nothing; but one that waits for data sends nothing either. A
// ping gives TCP something to watch on every stream, and us the news that a stream is dead.
void Comm::ask_for_life(int64_t now_ns) {
  const int64_t pause_ns = ping_ns();
  uint8_t ping[kFrameHeaderBytes];
  encode({.type = FrameType::kPing}, ping);
  for (const auto& lane : lanes_) {
    if (!lane->is_up() || now_ns - lane->moved_ns < pause_ns) continue;
    if (lane->stream.unacked_bytes() > 0 || lane->stream.is_blocked()) continue;
    lane->moved_ns = now_ns;
    if (lane->stream.send_small(ping) == Io::kFailed) on_send_failed(*lane);
    if (has_failed()) return;
  }
}

// Without any session the peer has the time that a daemon may take to come back, and at most the
// time after which a silent peer is given up. Silence counts only while a request waits.
void Comm::judge_absence(int64_t now_ns) {
  if (is_answer_due() || !is_awaiting()) alive_ns_ = now_ns;
  if (is_any_up() || is_answer_due() || !is_awaiting()) {
    lost_ns_ = 0;
    return;
  }
  if (lost_ns_ == 0) lost_ns_ = now_ns;
  const Settings& settings = environment_->settings();
  const bool is_late = now_ns - lost_ns_ > resume_ns(settings);
  if (!is_late && now_ns - alive_ns_ <= settings.peer_timeout_s * kNsPerSecond) return;
  std::string why = trouble_.empty() ? "it does not answer" : trouble_;
  const int64_t since_ns = std::min(lost_ns_, alive_ns_);
  why += "; given up after " + std::to_string((now_ns - since_ns) / kNsPerSecond) + " s without it";
  fail(Result::kRemoteError, std::move(why));
}

void Comm::on_detached() {
  if (has_failed()) return;
  for (const auto& lane : lanes_) {
    lane->dial.reset();
    if (lane->is_up()) drop_lane(*lane);
  }
}

void Comm::on_attached(int64_t now_ns) {
  alive_ns_ = now_ns;
  lost_ns_ = 0;
  for (const auto& lane : lanes_) {
    lane->redial_ns = 0;
    lane->failures = 0;
  }
}

void Comm::fail(Result result, std::string why) {
  if (has_failed()) return;
  result_ = result;
  why_ = std::move(why);
  for (const auto& lane : lanes_) {
    lane->dial.reset();
    lane->drop();
  }
}

// The peer waits for nothing from here, so this side ends in order, too, unless the stream is
// silent and that might take long.
void Comm::on_bye() {
  for (const auto& lane : lanes_) {
    const bool is_silent = environment_->now_ns() - lane->answered_ns >= kStallNs;
    if (lane->stream.unacked_bytes() == 0 || !is_silent) lane->stream.close();
  }
  fail(Result::kRemoteError, "the peer closed its end");
}

// Once a comm: NCCL stops at the first error, and tests may not.
Result Comm::report() {
  if (!is_reported_) {
    is_reported_ = true;
    log_warn("comm that %s %s: %s; %zu requests with %llu bytes outstanding", direction_text(),
             peer_.describe().c_str(), why_.c_str(), active(),
             static_cast<unsigned long long>(outstanding_bytes()));
  }
  return result_;
}

// With requests in flight this is an abort; the peer shall hear of it at once all the same.
void Comm::begin_close() {
  if (is_closing_ || has_failed()) return;
  pump();
  is_closing_ = true;
  if (has_failed()) return;
  is_aborted_ = active() > 0;
  for (const auto& lane : lanes_) {
    lane->dial.reset();
    if (lane->is_up()) say_goodbye(*lane);
  }
}

void Comm::say_goodbye(Lane& lane) {
  std::vector<uint8_t> words;
  last_words(&words);
  words.resize(words.size() + kFrameHeaderBytes);
  encode({.type = FrameType::kBye},
         std::span<uint8_t, kFrameHeaderBytes>(words.data() + words.size() - kFrameHeaderBytes,
                                               kFrameHeaderBytes));
  if (lane.stream.send_small(words) == Io::kFailed) {
    lane.stream.abort();
  } else if (is_aborted_) {
    lane.stream.close();
  }
}

bool Comm::is_close_done() {
  if (!environment_->is_attached()) return true;
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
    if (!lane->is_up() || lane->stream.state() == LYRE_ENDED) return true;
    const Io rest = lane->stream.flush();
    return rest == Io::kFailed || (rest == Io::kOk && lane->stream.unacked_bytes() == 0);
  });
}

// It is said on every stream: one is enough.
bool Comm::is_goodbye_heard() {
  return is_answered_ || std::any_of(lanes_.begin(), lanes_.end(), [this](const auto& lane) {
           return is_goodbye_heard_on(*lane);
         });
}

bool Comm::is_goodbye_heard_on(Lane& lane) const {
  if (!environment_->is_attached() || !lane.is_up()) return false;
  if (lane.stream.state() == LYRE_ENDED) return lane.stream.error() == 0;
  return lane.stream.flush() == Io::kOk && lane.stream.unacked_bytes() == 0;
}

// A stream over a path that died would repeat for seconds what was heard over another. One whose
// goodbye did not find room is reset: the peer dials again and is told, where a FIN alone would
// mean that this process ended.
void Comm::finish_close() {
  const bool is_heard = is_goodbye_heard();
  for (const auto& lane : lanes_) {
    const bool is_unsaid = lane->is_up() && lane->stream.is_blocked();
    if (is_unsaid || (is_heard && !is_goodbye_heard_on(*lane))) {
      lane->stream.abort();
    } else {
      lane->stream.close();
    }
  }
}

}  // namespace lyre::nccl_adapter
