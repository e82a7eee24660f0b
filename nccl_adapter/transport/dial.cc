#include "nccl_adapter/transport/dial.h"

#include <algorithm>
#include <utility>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

Dial::Dial(const lyre_addr& local, const lyre_addr& remote, const Hello& hello, uint32_t silence_ms,
           SessionOwner* waiter)
    : local_(local), remote_(remote), hello_(hello), silence_ms_(silence_ms), waiter_(waiter) {}

Dial::State Dial::advance(lyre_context* context, int64_t now_ns, int64_t deadline_ns) {
  switch (phase_) {
    case Phase::kStart:
      return start(context);
    case Phase::kDialing:
      if (stream_.state() == LYRE_ENDED) return ended();
      if (stream_.state() != LYRE_CONNECTING) return greet(now_ns);
      if (now_ns < deadline_ns) return State::kPending;
      return fail(LYRE_E_TIMEDOUT, "no answer to the connection request");
    case Phase::kAwaitAnswer:
      // The last repetition of the SYN may get through just before the deadline.
      if (now_ns < std::max(deadline_ns, greeted_ns_ + kDialNsMin) || is_hello_acknowledged() ||
          stream_.has_ended()) {
        return read_answer();
      }
      // The path may have broken after the handshake.
      return fail(LYRE_E_TIMEDOUT, "the connection was made, and nothing came over it");
    case Phase::kOver:
      break;
  }
  return result_;
}

Dial::State Dial::start(lyre_context* context) {
  lyre_session* session = nullptr;
  const int code = lyre_connect(context, &local_, &remote_, &session);
  if (code == LYRE_E_AGAIN) return State::kPending;
  if (code != 0) return fail(code, lyre_last_error());
  stream_ = Stream(session);
  stream_.set_owner(this);
  phase_ = Phase::kDialing;
  return State::kPending;
}

Dial::State Dial::greet(int64_t now_ns) {
  stream_.limit_silence(silence_ms_);
  uint8_t bytes[kHelloBytes];
  encode(hello_, bytes);
  if (stream_.send_small(bytes) == Io::kFailed) return ended();
  // The answer may take as long as the peer's process likes; that its host is gone shows only when
  // it is asked.
  stream_.probe_silence(true);
  greeted_ns_ = now_ns;
  phase_ = Phase::kAwaitAnswer;
  return State::kPending;
}

bool Dial::is_hello_acknowledged() const {
  return phase_ == Phase::kAwaitAnswer && stream_.state() == LYRE_OPEN && !stream_.is_blocked() &&
         stream_.unacked_bytes() == 0;
}

bool Dial::is_accepted(int64_t now_ns) const {
  if (is_hello_acknowledged()) return true;
  if (stream_.state() != LYRE_OPEN) return false;
  // In kDialing the handshake ended since the last advance(). One that is older may have been with
  // a daemon that is gone.
  return phase_ == Phase::kDialing ||
         (phase_ == Phase::kAwaitAnswer && now_ns - greeted_ns_ < kJustConnectedNs);
}

Dial::State Dial::read_answer() {
  if (stream_.flush() == Io::kFailed) return ended();
  while (answer_bytes_.size() < kAnswerBytes) {
    std::span<const uint8_t> bytes;
    const Io io = stream_.peek(&bytes);
    if (io == Io::kAgain) return State::kPending;
    if (io != Io::kOk) return ended();
    const size_t taken = std::min(bytes.size(), kAnswerBytes - answer_bytes_.size());
    answer_bytes_.insert(answer_bytes_.end(), bytes.begin(),
                         bytes.begin() + static_cast<ptrdiff_t>(taken));
    stream_.consume(taken);
    // Another program may send less than an answer, and then wait as well.
    if (!begins_answer(answer_bytes_)) break;
  }
  if (!stream_.has_read_right()) return ended();
  stream_.release();
  stream_.probe_silence(false);
  if (answer_bytes_.size() < kAnswerBytes ||
      !decode(std::span<const uint8_t, kAnswerBytes>(answer_bytes_.data(), kAnswerBytes),
              &answer_)) {
    return fail(LYRE_E_INVALID, "what answers there is no Lyre plugin");
  }
  phase_ = Phase::kOver;
  result_ = answer_.code == AnswerCode::kWelcome ? State::kWelcome : State::kRefused;
  return result_;
}

Dial::State Dial::ended() {
  const int code = stream_.error();
  return fail(code,
              code != 0 ? stream_.error_text() : "it closed the connection without an answer");
}

Dial::State Dial::fail(int code, std::string why) {
  error_ = code;
  why_ = std::move(why);
  phase_ = Phase::kOver;
  result_ = State::kFailed;
  stream_.abort();
  return result_;
}

}  // namespace lyre::nccl_adapter
