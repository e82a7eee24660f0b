#include <algorithm>
#include <string>
#include <utility>

#include "nccl_adapter/comm/send_comm.h"
#include "nccl_adapter/limits.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/transport/address.h"

/// How a sending comm comes to its streams, and what it does about bad ones.
namespace lyre::nccl_adapter {

using nccl_abi::Result;

namespace {

/// Twice as long each time.
int64_t pause_ns(int64_t first_ns, uint32_t times, int64_t most_ns) {
  return std::min(first_ns << std::min(times, 10u), most_ns);
}

/// Parts of the reason for which a comm fails.
constexpr const char* kIsFullHere =
    "; this host's daemon has no connection left for this process, its user or its domain "
    "(tcp.connections_max and the limits beside it; `lyre clients`)";
constexpr const char* kMayBeFull =
    "; other connections reach that host: its daemon may be full (tcp_no_sessions in lyre stats "
    "there)";

/// A stream that left its home because that is slow has this pair. It has a part of the pair's rate
/// as has the stream that it joined: that neither is as fast as the others is no reason to go.
bool has_guest(const Lanes& lanes, size_t pair, size_t pairs) {
  return std::any_of(lanes.begin(), lanes.end(), [&](const auto& lane) {
    const bool is_guest = lane->slow_again > kSlowAgainMax && !lane->is_at_home(pairs);
    return lane->is_up() && is_guest && lane->attached_pair == pair;
  });
}

/// Another stream of the same pair is much faster: a path of the fabric is slow, and another source
/// port may get a better one.
bool is_rail_good(const Lanes& lanes, const Lane& slow) {
  const auto least = static_cast<double>(slow.rate_bytes_per_s);
  return std::any_of(lanes.begin(), lanes.end(), [&](const auto& lane) {
    if (lane.get() == &slow || !lane->is_up()) return false;
    return lane->attached_pair == slow.attached_pair &&
           static_cast<double>(lane->rate_bytes_per_s) * kSlowPercent / 100 > least;
  });
}

/// For a comm without a stream: this host's daemon has no place for one.
void declare_full_here(Environment& environment) {
  if (!environment.shortage().declare(environment.clock().monotonic_ns())) return;
  log_info(
      "the Lyre daemon at %s has no connection left: connections of this process give back some "
      "streams",
      socket_path_text(environment.settings()));
}

/// For a comm without a stream: that host answers none of its dials. A full daemon drops them, and
/// so does a host that is down. False: it is not known to answer others.
bool declare_full_there(Environment& environment, const std::string& host) {
  const int64_t now_ns = environment.clock().monotonic_ns();
  if (!environment.shortage().is_reached(host, now_ns)) return false;
  if (environment.shortage().declare(now_ns)) {
    log_info(
        "host %s does not answer another connection: if its daemon is full, streams that "
        "connections of this process give back make room",
        host.c_str());
  }
  return true;
}

}  // namespace

void SendComm::on_lane_lost(Lane& lane) { send_again(lane); }

// Frames that no grant covers are sent again, over other streams or over this one's successor.
void SendComm::send_again(Lane& lane) {
  for (const SentChunk& sent : lane.sent) queue_.send_again(sent);
  lane.sent.clear();
}

bool SendComm::is_answer_due() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
    return lane->dial != nullptr && lane->dial->is_hello_acknowledged();
  });
}

void SendComm::watch(int64_t now_ns) {
  const DeliveryWatch::Situation situation{.placed = queue_.placed(),
                                           .is_awaiting = Comm::is_awaiting()};
  delivery_watch_.look(lanes_, situation);
  auto why = delivery_watch_.judge(environment()->settings(), now_ns);
  if (why) return fail(Result::kRemoteError, std::move(*why));
  for (const auto& lane : lanes_) {
    watch_lane(*lane, now_ns);
    if (has_failed()) return;
  }
  adapt_count(now_ns - std::exchange(watched_ns_, now_ns));
  if (lanes_.size() > 1) replace_slow_lane(now_ns);
  if (!goodbye_.is_begun()) {
    queue_pairs_.offer(handle_.address, device_);
    await_queue_pair(now_ns);
    if (has_failed()) return;
  }
  pump_out();
}

// LYRE_VERBS=only: its user counts on queue pairs, and is to notice that there is none.
void SendComm::await_queue_pair(int64_t now_ns) {
  if (environment()->settings().verbs != VerbsUse::kOnly) return;
  if (queue_pairs_.carrying() > 0 || !Comm::is_awaiting()) {
    without_queue_pair_ns_ = 0;
    return;
  }
  if (without_queue_pair_ns_ == 0) without_queue_pair_ns_ = now_ns;
  const int64_t most_s = environment()->settings().peer_timeout_s;
  if (now_ns - without_queue_pair_ns_ <= most_s * kNsPerSecond) return;
  fail(Result::kRemoteError, "LYRE_VERBS=only, and there was no queue pair for " +
                                 std::to_string(most_s) + " s: " + queue_pairs_.trouble());
}

void SendComm::watch_lane(Lane& lane, int64_t now_ns) {
  if (goodbye_.is_begun()) return;
  if (!is_wanted(lane)) return retire(lane, now_ns);
  if (lane.is_stalled(now_ns)) {
    if (!lane.is_unwanted) {
      lane.pair = pairs_.next(lane.pair, &lane.far_pairs);
      lane.redial_ns = now_ns + DeliveryWatch::pause_ns(lane, environment()->settings());
    }
    lane.is_unwanted = true;
    give_up_stalled(lane, now_ns);
  } else {
    if (lane.dial == nullptr) lane.want_again();
    if (lane.is_up()) lane.forgive(now_ns, lane.is_at_home(pairs_.size()));
  }
  if (lane.dial != nullptr) return advance_dial(lane, now_ns);
  redial(lane, now_ns);
}

// Where others show that the peer is there, its bytes need not wait for what may never come.
void SendComm::give_up_stalled(Lane& lane, int64_t now_ns) {
  // Later than this one stopped: a pause of the peer stops them all.
  const bool others_move = std::any_of(lanes_.begin(), lanes_.end(), [&](const auto& other) {
    return other.get() != &lane && other->is_up() && !other->is_stalled(now_ns) &&
           other->answered_ns - lane.moved_ns > lane.stall_ns() / 2;
  });
  if (!others_move) return;
  log_info("a stream to %s stalls (%s): its bytes go over others", peer_.host.c_str(),
           lane.path_text.c_str());
  peer_watch_.note_trouble("a stream stalled (" + lane.path_text + ")");
  delivery_watch_.note_stall(lane);
  drop_lane(lane);
}

void SendComm::redial(Lane& lane, int64_t now_ns) {
  const bool is_wanted = !lane.is_up() || lane.is_unwanted;
  // The first lane tells whether there is anybody; the others follow it.
  if (is_wanted && now_ns >= lane.redial_ns && (is_connected_ || lane.index == 0)) {
    return dial(lane, lane.pair, now_ns);
  }
  // The stream goes on where it is until the home pair is known to be good.
  const bool is_away = lane.is_up() && !lane.is_at_home(pairs_.size());
  const int64_t return_ns = lane.dial_since_ns + pause_ns(kReturnNsMin, lane.returns, kReturnNsMax);
  if (!is_away || now_ns < return_ns) return;
  ++lane.returns;
  dial(lane, lane.home_pair, now_ns);
}

// TCP would notice a session that is dead at its next timeout, and repeat a lost SYN later and
// later. What failed while the peer's daemon was away says nothing about the rail pairs; what
// carried the last session does: the home pair may need a router that does not exist.
void SendComm::redial_all() {
  if (has_failed() || goodbye_.is_begun() || !is_connected_) return;
  const int64_t now_ns = environment()->now_ns();
  peer_watch_.note_sign_of_life(now_ns);
  for (const auto& lane : lanes_) {
    if (!is_wanted(*lane) || (lane->dial != nullptr && lane->dial->is_accepted(now_ns))) continue;
    lane->failures = 0;
    lane->is_unwanted = true;
    lane->pair = lane->attached_pair;
    dial(*lane, lane->pair, now_ns);
    if (has_failed()) return;
  }
}

size_t SendComm::wanted_up() const {
  return static_cast<size_t>(std::count_if(lanes_.begin(), lanes_.end(), [&](const auto& lane) {
    return lane->is_up() && is_wanted(*lane);
  }));
}

// Busy is who has much under way, or something that waits for room, at both ends of the time: with
// less, the caller may be the limit.
void SendComm::adapt_count(int64_t passed_ns) {
  // What was refused before streams were given back says nothing about the places that are free
  // now.
  const size_t count = count_.wanted();
  if (count < std::exchange(known_count_, count)) {
    for (const auto& lane : lanes_) lane->is_refused = false;
  }
  StreamCount::Report report{.up = wanted_up()};
  uint64_t unacked_bytes = 0;
  bool is_reached = false;
  for (const auto& lane : lanes_) {
    if (!lane->is_up()) {
      report.is_refused = report.is_refused || (lane->is_refused && report.up > 0);
      continue;
    }
    is_reached = is_reached || !lane->is_stalled(environment()->now_ns());
    report.acked_bytes += lane->gained_bytes;
    unacked_bytes += lane->unacked_bytes;
  }
  const bool is_backlogged = unacked_bytes >= kBusyBytes || queue_.waits_for_room();
  report.is_busy = std::exchange(was_backlogged_, is_backlogged) && is_backlogged;
  count_.report(report);
  if (is_reached) {
    environment()->shortage().note_reached(handle_.host, environment()->clock().monotonic_ns());
  }
  follow_count(report.is_busy, passed_ns);
}

// A comm that has little to send gets no streams for the sake of others, and loses those that it
// has not used for long.
void SendComm::follow_count(bool is_busy, int64_t passed_ns) {
  const size_t before = wanted_;
  idle_ns_ = is_busy ? 0 : idle_ns_ + passed_ns;
  wanted_ = is_busy ? count_.wanted() : std::min(wanted_, count_.wanted());
  if (idle_ns_ >= kForgetStreamsNs) wanted_ = std::min(wanted_, count_.idle());
  if (wanted_ == before) return;
  log_info("streams to %s: %zu, were %zu", peer_.host.c_str(), wanted_, before);
  for (size_t i = lanes_.size(); i < wanted_; ++i) {
    lanes_.grow(i + 1);
    set_home(lanes_[i]);
  }
  // A daemon that refused these may have room now. A trial is over before kNoRoomNs are.
  for (size_t i = before; i < wanted_; ++i) lanes_[i].redial_ns = 0;
}

// The peer takes a reset for a stream that broke, and need not be told that it is over. Nothing of
// what it carried is lost: the peer has placed all of it, and sends its last grant again.
void SendComm::retire(Lane& lane, int64_t now_ns) {
  lane.dial.reset();
  lane.is_missed = lane.is_refused = false;
  if (!lane.is_up()) return;
  while (!lane.sent.empty() && lane.sent.front().message < queue_.placed()) lane.sent.pop_front();
  if (lane.sent.empty() || lane.is_stalled(now_ns)) drop_lane(lane);
}

// The fabric chooses a path by the ports: another source port may get a better one.
void SendComm::replace_slow_lane(int64_t now_ns) {
  std::vector<SlowStreams::Look> looks;
  for (const auto& lane : lanes_) {
    // A reader that is slow says nothing about paths, whichever stream it lets wait.
    if (lane->is_window_closed) return;
    if (!lane->is_up() || !is_wanted(*lane)) continue;
    const bool is_replaceable = lane->dial == nullptr && now_ns >= lane->replace_ns &&
                                !has_guest(lanes_, lane->attached_pair, pairs_.size());
    // A slow stream is given little.
    const uint64_t backlog_min = std::min(kSlowBacklogBytes, lane->room_bytes(0, false) / 2);
    looks.push_back({.stream = lane->index,
                     .session = lane->attached,
                     .acked_bytes = lane->gained_bytes,
                     .is_active = lane->backlog_bytes > 0 || lane->gained_bytes > 0,
                     .is_judged = lane->backlog_bytes >= backlog_min && is_replaceable});
  }
  const std::optional<SlowStreams::Slow> slow = slow_streams_.look(looks);
  if (!slow) return;
  Lane& lane = lanes_[slow->stream];
  log_info("a stream to %s is slow (%s, %.0f %% of its neighbours' rate): another takes its place",
           peer_.host.c_str(), lane.path_text.c_str(), slow->percent);
  lane.replace_ns = now_ns + pause_ns(kSlowPauseNsMin, lane.replaced++, kSlowPauseNsMax);
  lane.is_unwanted = true;
  // Other source ports did not help. A stream that returns to a home which is still slow leaves it
  // the first time.
  const bool may_leave = environment()->settings().uses_all_rails && !is_rail_good(lanes_, lane);
  if (may_leave && lane.slow_again++ >= kSlowAgainMax) {
    lane.pair = pairs_.beside(lane.pair, lane.slow_again);
  }
  dial(lane, lane.pair, now_ns);
}

void SendComm::dial(Lane& lane, size_t number, int64_t now_ns) {
  lane.dialled_pair = number % pairs_.size();
  const RailPair& pair = pairs_[lane.dialled_pair];
  const lyre_addr local =
      make_addr(address_towards(environment()->ports()[pair.local], pair.remote), 0);
  const Hello hello{.stream_index = lane.index,
                    .stream_count = static_cast<uint16_t>(count_.most()),
                    .incarnation = ++lane.dialled,
                    .listen_port = environment()->listen_port(),
                    .pid = environment()->pid(),
                    .nonce = handle_.nonce,
                    .comm_id = id(),
                    .host = environment()->host()};
  lane.dial = std::make_unique<Dial>(local, make_addr(pair.remote, handle_.port), hello,
                                     silence_ms(environment()->settings()), this);
  lane.dial_since_ns = now_ns;
  advance_dial(lane, now_ns);
}

// There shall be two turns before the peer is given up. With one pair only, a new port may find
// another path through the fabric, and TCP's own attempts become rare.
int64_t SendComm::dial_ns() const {
  const auto dials = static_cast<int64_t>(2 * pairs_.turn());
  return std::clamp(patience_ns(environment()->settings()) / dials, kDialNsMin, kDialNsMax);
}

void SendComm::advance_dial(Lane& lane, int64_t now_ns) {
  switch (lane.dial->advance(environment()->context(), now_ns, lane.dial_since_ns + dial_ns())) {
    case Dial::State::kPending:
      return;
    case Dial::State::kWelcome:
      return on_welcome(lane, now_ns);
    case Dial::State::kRefused:
      return on_refusal(lane, now_ns);
    case Dial::State::kFailed:
      return on_dial_failed(lane, now_ns);
  }
}

void SendComm::on_welcome(Lane& lane, int64_t now_ns) {
  const std::unique_ptr<Dial> dial = std::move(lane.dial);
  const Answer& answer = dial->answer();
  if (answer.version < kProtocolVersionMin || answer.version > kProtocolVersionMax) {
    return fail(Result::kInvalidUsage, "it chose protocol version " +
                                           std::to_string(answer.version) +
                                           ", which this library does not speak");
  }
  if (lane.is_stalled(now_ns)) delivery_watch_.note_stall(lane);
  if (lane.is_up()) drop_lane(lane);
  lane.version = answer.version;
  if (answer.version >= kCountedByeVersion) queue_.keep_small();
  lane.pair = lane.dialled_pair;
  const RailPair pair = pairs_[lane.pair];
  lane.path_text =
      std::string(environment()->ports()[pair.local].name) + " > " + to_string(dial->remote());
  lane.rail_text = std::string("over ") + environment()->ports()[pair.local].name;
  lane.attach(std::make_unique<Stream>(dial->take_stream()), dial->incarnation(), now_ns);
  peer_watch_.note_attached(now_ns);
  pump_in(lane);  // something may have come with the answer
  lane.attached_pair = lane.pair;
  if (!is_connected_) return on_connected(lane, pair, answer);
  log_info("stream %u to host %s is there (%s)", lane.index, peer_.host.c_str(),
           lane.path_text.c_str());
}

// The peer's port that NCCL chose comes first, as the one here does.
void SendComm::on_connected(Lane& lane, const RailPair& pair, const Answer& answer) {
  is_connected_ = true;
  peer_.host = answer.host;
  const std::vector<lyre_port>& ports = environment()->ports();
  const std::vector<Address> remotes = beginning_with(handle_.address, answer.rails);
  pairs_.set(ports, rail_pairs(ports, device_, remotes, answer.rails));
  for (const auto& own : lanes_) set_home(*own);
  // The stream is where the list of the handle put it, which may not be its home in this one.
  lane.pair = lane.attached_pair = pairs_.find(pair);
  log_info("sends to %s; streams: %zu (%s), rail pairs: %zu", peer_.describe().c_str(),
           lanes_.size(), lane.path_text.c_str(), pairs_.size());
}

void SendComm::on_refusal(Lane& lane, int64_t now_ns) {
  const std::unique_ptr<Dial> dial = std::move(lane.dial);
  const Answer& answer = dial->answer();
  switch (answer.code) {
    case AnswerCode::kDeparted:
      // The news of the last placements was lost on the way here.
      if (answer.placed >= queue_.placed()) (void)queue_.on_grant(answer.placed, answer.placed);
      return on_bye();
    case AnswerCode::kVersion:
      return fail(Result::kInvalidUsage, "it refused: " + answer.text);
    case AnswerCode::kUnknown:
      return fail(Result::kRemoteError, "it refused: " + answer.text);
    case AnswerCode::kWelcome:
    case AnswerCode::kBusy:
    case AnswerCode::kBadStream:
    case AnswerCode::kRedialing:
      break;
  }
  peer_watch_.note_trouble("it refused: " + answer.text);
  peer_watch_.note_sign_of_life(now_ns);
  lane.redial_ns = now_ns + pause_ns(kRedialNsMin, lane.failures++, kRedialNsMax);
}

void SendComm::on_dial_failed(Lane& lane, int64_t now_ns) {
  const std::unique_ptr<Dial> dial = std::move(lane.dial);
  if (environment()->note_daemon_error(dial->error())) return;
  const bool is_full = dial->error() == LYRE_E_NORESOURCES;
  lane.is_refused = is_full;
  const bool is_answered = dial->error() == LYRE_E_REFUSED || dial->error() == LYRE_E_RESET;
  if (is_answered) peer_watch_.note_sign_of_life(now_ns);
  // A plugin resets or refuses; only the daemon of a process that ended closes: judge_end().
  if (dial->error() == 0) {
    peer_watch_.note_ended();
    judge_end();
    if (has_failed()) return;
  }
  // That the home pair is still bad is no trouble for a stream that took another.
  if (lane.dialled_pair != lane.pair % pairs_.size()) return;
  std::string trouble = dial->why() + " (to " + to_string(dial->remote()) + ")";
  if (!lanes_.is_any_up()) {
    if (is_full) {
      declare_full_here(*environment());
      trouble += kIsFullHere;
    }
    // Where only a path is broken, another pair is good.
    const bool is_silent = dial->error() == LYRE_E_TIMEDOUT && lane.failures + 1 >= pairs_.turn();
    if (is_silent && declare_full_there(*environment(), handle_.host)) trouble += kMayBeFull;
  }
  peer_watch_.note_trouble(std::move(trouble));
  // What a full daemon here refuses has another pair no room for, either.
  if (!is_full) lane.pair = pairs_.next(lane.pair, &lane.far_pairs);
  // A full daemon there does not answer, and a path may not: each pair has its turn first.
  const bool is_ignored =
      dial->error() == LYRE_E_TIMEDOUT && lane.attached == 0 && lane.failures >= pairs_.size();
  // The places are for comms that have no stream; each one's first lane goes on.
  const bool is_extra = lane.index > 0 && lanes_.is_any_up();
  const int64_t again_ns = pause_ns(kRedialNsMin, lane.failures++, kRedialNsMax);
  lane.redial_ns = now_ns + (is_extra && (is_full || is_ignored) ? kNoRoomNs : again_ns);
}

}  // namespace lyre::nccl_adapter
