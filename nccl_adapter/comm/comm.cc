#include "nccl_adapter/comm/comm.h"

#include <algorithm>
#include <utility>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/protocol/frame.h"

namespace lyre::nccl_adapter {

using nccl_abi::Result;

namespace {

Io send_ping(Lane& lane) {
  uint8_t ping[kFrameHeaderBytes];
  encode({.type = FrameType::kPing}, ping);
  return lane.transport->send_small(ping);
}

}  // namespace

std::string Peer::describe() const {
  return "host " + host + " (" + address + "), process " + std::to_string(pid);
}

Comm::Comm(Environment* environment, const Nonce& id, Peer peer, size_t lanes)
    : lanes_(this, lanes),
      queue_pairs_({environment, this, &lanes_, [this](Lane& lane) { drop_lane(lane); }}, id),
      peer_(std::move(peer)),
      peer_watch_(environment->now_ns()),
      goodbye_(environment, &lanes_, &peer_watch_),
      environment_(environment),
      id_(id),
      memory_({environment, &lanes_, &queue_pairs_, [this](Lane& lane) { drop_lane(lane); }}) {}

Comm::~Comm() {
  queue_pairs_.close();
  memory_.release_all();
}

Result Comm::post(void* data, uint64_t bytes, const Registration* registration,
                  const Operation& operation, Request** out) {
  *out = nullptr;
  if (has_failed()) {
    // A rank that is about to close with requests in flight must be able to post them although its
    // peer closed a moment earlier: test() returns the error.
    if (failure_.result == Result::kRemoteError) *out = post_request(data, bytes);
    return *out != nullptr ? Result::kSuccess : report();
  }
  Request* request = post_request(data, bytes);
  if (request != nullptr) {
    request->posted_ns = environment_->now_ns();
    request->operation = last_operation_ = operation;
    const auto* from = static_cast<const uint8_t*>(data);
    const bool is_inside = registration != nullptr && from >= registration->base &&
                           from + bytes <= registration->base + registration->bytes;
    if (is_inside && !request->is_kept) request->memory = registration->memory;
    if (is_sender()) environment_->small_sends().on_send(bytes, environment_->now_ns());
  }
  pump();
  // A failure in this pump belongs to the request: test() returns it.
  *out = request;
  return Result::kSuccess;
}

Result Comm::test(Request* request, int* done, int* sizes) {
  *done = 0;
  using State = Request::State;
  if (request->state == State::kFree || request->state == State::kTold) {
    log_warn("test() of a request that is not in use (it was done before)");
    return Result::kInvalidUsage;
  }
  if (!request->is_done()) pump();
  if (request->is_done()) {
    *done = 1;
    if (sizes != nullptr) *sizes = static_cast<int>(request->bytes);
    requests().release(request);
    return Result::kSuccess;
  }
  return has_failed() ? report() : Result::kSuccess;
}

Registration* Comm::add_registration(const void* data, uint64_t bytes) {
  return memory_.add(data, bytes, is_sender());
}

// With requests there the comm is about to fail, and its streams are reset in any case.
bool Comm::should_wait_to_deregister(const Registration* registration) const {
  if (has_failed() || !memory_.has(registration)) return false;
  return !requests().touches(registration->base, registration->bytes) &&
         memory_.is_read(*registration);
}

Result Comm::remove_registration(const Registration* registration) {
  if (!memory_.has(registration)) {
    log_warn("deregMr() of a handle that this comm does not know");
    return Result::kInvalidUsage;
  }
  // Memory is accessed under the lock only, and after its release not at all.
  if (!has_failed() && requests().touches(registration->base, registration->bytes)) {
    failure_.is_reported = true;  // no warning: the caller caused this
    begin_close();
    fail(Result::kInternalError, "its memory was deregistered with requests in flight");
  }
  memory_.release(registration);
  return Result::kSuccess;
}

// While the daemon is away, queue pairs go on by themselves.
void Comm::pump() {
  if (has_failed() || (!environment_->is_attached() && lanes_.is_any_up())) return;
  for (const auto& lane : lanes_) {
    if (!lane->is_up()) continue;
    pump_in(*lane);
    if (has_failed()) return;
  }
  for (Lane* lane : queue_pairs_.lanes()) {
    if (lane->is_up()) pump_in(*lane);
    if (has_failed()) return;
  }
  pump_out();
}

void Comm::pump_in(Lane& lane) {
  for (int round = 0; round < kTakeRoundsMax * kSlicesPerTake; ++round) {
    std::span<const uint8_t> bytes;
    const Io io = lane.transport->peek(&bytes);
    if (io == Io::kFailed || io == Io::kFinished) return on_broken(lane, io);
    if (io != Io::kOk) return;
    lane.has_received = true;
    if (!take(lane, bytes)) return;
    lane.transport->consume(bytes.size());
  }
  lane.transport->release();
}

// The last grant may be there, or the FIN that says why the peer resets.
void Comm::on_send_failed(Lane& lane) {
  pump_in(lane);
  if (!has_failed() && lane.is_up()) on_broken(lane, Io::kFailed);
}

void Comm::on_broken(Lane& lane, Io how) {
  // It says nothing about the peer, which is there as long as a stream is.
  if (lane.is_for_queue_pairs) return queue_pairs_.give_up(lane);
  const int code = how == Io::kFinished ? 0 : lane.transport->error();
  // With the daemon every session is gone; all of them are made anew when it is back.
  if (environment_->note_daemon_error(code)) return;
  if (peer_watch_.has_said_bye()) return how == Io::kFinished ? lane.close() : drop_lane(lane);
  if (how == Io::kFinished) {
    goodbye_.is_begun() ? goodbye_.note_answered() : peer_watch_.note_ended();
  }
  std::string trouble = how == Io::kFinished
                            ? "the connection ended without a goodbye"
                            : std::string("the connection ended: ") + lane.transport->error_text();
  if (!lane.path_text.empty()) trouble += " (" + lane.path_text + ")";
  peer_watch_.note_trouble(std::move(trouble));
  // A reset is an answer of the peer's host.
  if (code != LYRE_E_TIMEDOUT && code != LYRE_E_UNREACHABLE) {
    peer_watch_.note_sign_of_life(environment_->now_ns());
  }
  drop_lane(lane);
  // A sender resets a stream that it needs no longer, and dials one that broke at once.
  lane.is_missed = is_sender() || code != LYRE_E_RESET || lane.index == 0;
  judge_end();
}

PeerWatch::Situation Comm::situation() const {
  return {.is_any_up = lanes_.is_any_up(),
          .is_answer_due = is_answer_due(),
          .is_awaiting = is_awaiting()};
}

void Comm::judge_end() {
  if (auto why = peer_watch_.judge_end(situation())) fail(Result::kRemoteError, std::move(*why));
}

void Comm::drop_lane(Lane& lane) {
  lane.drop();
  on_lane_lost(lane);
}

void Comm::tick(int64_t now_ns) {
  if (has_failed()) return;
  for (const auto& lane : lanes_) {
    if (lane->is_up() && lane->look(now_ns)) peer_watch_.note_sign_of_life(now_ns);
  }
  queue_pairs_.look(now_ns);
  watch(now_ns);
  if (has_failed()) return;
  ask_for_life(now_ns);
  judge_end();
  if (has_failed()) return;
  const PeerWatch::Situation now = situation();
  auto why = peer_watch_.judge_absence(now, environment_->settings(), now_ns);
  if (why) return fail(Result::kRemoteError, std::move(*why));
  if (!peer_watch_.is_answer_late(now, environment_->settings(), now_ns)) return;
  log_warn("still waiting for %s to answer", peer_.describe().c_str());
}

// A host that vanished acknowledges nothing; but one that waits for data sends nothing either. A
// ping is data that TCP must see acknowledged on every stream, so a dead stream is detected. An
// idle sender pings more seldom, but it must: a receiver that lost its streams can only wait, and
// its time is limited.
void Comm::ask_for_life(int64_t now_ns) {
  const bool is_idle = requests().active() == 0;
  if (is_idle && (!is_sender() || goodbye_.is_begun())) return;
  const int64_t pause_ns = is_idle ? patience_ns(environment_->settings()) / 3 : kPingNs;
  for (const auto& lane : lanes_) {
    if (!lane->is_up() || now_ns - lane->moved_ns < pause_ns) continue;
    if (lane->transport->unacked_bytes() > 0 || lane->transport->is_blocked()) continue;
    lane->moved_ns = now_ns;
    if (send_ping(*lane) == Io::kFailed) on_send_failed(*lane);
    if (has_failed()) return;
  }
}

void Comm::on_detached() {
  if (has_failed()) return;
  for (const auto& lane : lanes_) {
    lane->dial.reset();
    if (lane->is_up()) drop_lane(*lane);
  }
}

void Comm::on_attached(int64_t now_ns) {
  peer_watch_.note_daemon_back(now_ns);
  for (const auto& lane : lanes_) {
    lane->redial_ns = 0;
    lane->failures = 0;
  }
}

void Comm::fail(Result result, std::string why) {
  if (has_failed()) return;
  failure_.result = result;
  failure_.why = std::move(why);
  lanes_.drop_all();
  queue_pairs_.close();
}

// The peer needs no more data, so this side closes in order, too, unless the stream is silent and
// that might take long.
void Comm::on_bye() {
  for (const auto& lane : lanes_) {
    if (!lane->is_up()) continue;
    const bool is_silent = environment_->now_ns() - lane->answered_ns >= kStallNs;
    if (lane->transport->unacked_bytes() == 0 || !is_silent) lane->close();
  }
  fail(Result::kRemoteError, "the peer closed its end");
}

// Once a comm: NCCL stops at the first error, and tests may not.
Result Comm::report() {
  if (!std::exchange(failure_.is_reported, true)) {
    log_warn("comm that %s %s: %s; %zu requests with %llu bytes outstanding",
             is_sender() ? "sends to" : "receives from", peer_.describe().c_str(),
             failure_.why.c_str(), requests().active(),
             static_cast<unsigned long long>(requests().outstanding_bytes()));
  }
  return failure_.result;
}

// With requests in flight this is an abort; the peer is told of it at once all the same.
void Comm::begin_close() {
  if (goodbye_.is_begun() || has_failed()) return;
  pump();
  // What was under way there is placed, or nobody waits for it; the last words go over TCP.
  queue_pairs_.close();
  const std::vector<uint8_t> words = last_words();
  const bool is_abort = requests().untold() > 0;
  const uint64_t messages = is_sender() && !is_abort ? requests().posted() : 0;
  goodbye_.begin({.is_abort = is_abort,
                  .is_data_under_way = requests().are_all_told(),
                  .last = words,
                  .bye = {.type = FrameType::kBye, .message = messages}});
}

// The receiver's grant of small messages may wait, until a ping asks for it.
bool Comm::should_wait_to_close() {
  if (has_failed() || !requests().are_all_told()) return false;
  for (const auto& lane : lanes_) {
    if (is_placement_asked_ || !lane->is_up() || lane->transport->is_blocked()) continue;
    is_placement_asked_ = true;
    if (send_ping(*lane) == Io::kFailed) on_send_failed(*lane);
    if (has_failed()) return false;
  }
  return true;
}

CommFacts Comm::facts() const {
  CommFacts facts;
  nccl_abi::CommView& view = facts.view;
  std::copy(id_.begin(), id_.end(), view.id);
  view.communicator = environment_->communicator();
  view.has_failed = has_failed() || environment_->is_dead() ? 1 : 0;
  view.peer_pid = peer_.pid;
  view.requests = static_cast<uint32_t>(requests().active());
  view.outstanding_bytes = requests().outstanding_bytes();
  view.bytes = requests().finished_bytes();
  view.queue_pairs_up = static_cast<uint32_t>(queue_pairs_.carrying());
  view.written_ns = environment_->clock().monotonic_ns();
  const Request* waiting = requests().oldest();
  if (waiting != nullptr) {
    view.oldest_since_ns = environment_->clock().to_monotonic_ns(waiting->posted_ns);
  }
  describe(&view);
  facts.peer_host = peer_.host;
  facts.peer_address = peer_.address;
  facts.operation = waiting != nullptr ? waiting->operation : last_operation_;
  facts.is_attached = environment_->is_attached();
  const auto add = [&facts](const Lane& lane, std::string path) {
    facts.streams.push_back({.is_up = lane.is_up(),
                             .unacked_bytes = lane.is_up() ? lane.transport->unacked_bytes() : 0,
                             .path = std::move(path),
                             .rail = lane.rail_text});
  };
  // Queue pairs first: the data takes them.
  for (const Lane* lane : queue_pairs_.lanes()) {
    if (lane->attached > 0) add(*lane, queue_pairs_.path_text(*lane));
    view.redials += lane->remade;
    view.queue_pairs_lost += lane->attached - (lane->is_up() ? 1 : 0);
    view.copied_bytes += lane->copied_bytes();
  }
  for (const auto& lane : lanes_) {
    if (lane->is_up() || lane->is_missed) add(*lane, lane->path_text);
    view.redials += lane->remade;
    view.copied_bytes += lane->copied_bytes();
  }
  return facts;
}

}  // namespace lyre::nccl_adapter
