#include "tools/lyre/perf/conversation.h"

#include <algorithm>
#include <utility>

namespace lyre::perf {
namespace {

/// A peer that says nothing for this long before the test is nobody of ours.
constexpr int64_t kAgreeTimeoutNs = 10'000'000'000;
/// How long the end waits for the peer's FIN.
constexpr int64_t kPartTimeoutNs = 2'000'000'000;

template <size_t kBytes>
bool try_write(Stream& stream, const std::array<uint8_t, kBytes>& bytes) {
  const std::span<uint8_t> block = stream.try_begin_write(kBytes);
  if (block.empty()) return false;
  std::copy(bytes.begin(), bytes.end(), block.begin());
  stream.commit_write(kBytes);
  return true;
}

}  // namespace

Conversation::Conversation(std::unique_ptr<Stream> stream, const std::optional<Plan>& plan)
    : stream_(std::move(stream)), side_(plan ? Side::kClient : Side::kServer), plan_(plan) {}

bool Conversation::step(int64_t now) {
  if (begun_ns_ == 0) begun_ns_ = now;
  const Phase before = phase_;
  bool has_worked = false;
  // What the transport had no room for; who waits for an answer to it writes nothing himself.
  if (phase_ > Phase::kOpen && phase_ < Phase::kPart) stream_->try_flush();
  switch (phase_) {
    case Phase::kOpen:
      if (stream_->is_open()) phase_ = Phase::kPlan;
      break;
    case Phase::kPlan:
      if (side_ == Side::kClient ? send_plan() : take_plan()) phase_ = Phase::kWelcome;
      break;
    case Phase::kWelcome:
      if (side_ == Side::kClient ? take_welcome() : try_write(*stream_, encode_welcome())) {
        exchange_ = make_exchange(*plan_, side_);
        started_ns_ = now;
        phase_ = Phase::kExchange;
      }
      break;
    case Phase::kExchange:
      has_worked = exchange(now);
      break;
    case Phase::kPart:
      if (part(now)) phase_ = Phase::kOver;
      break;
    case Phase::kOver:
      return false;
  }
  const bool is_agreeing = phase_ < Phase::kExchange && now - begun_ns_ > kAgreeTimeoutNs;
  if (is_agreeing) throw StreamError("it said nothing of use for 10 seconds");
  return has_worked || phase_ != before;
}

bool Conversation::send_plan() { return try_write(*stream_, encode(*plan_)); }

bool Conversation::take_plan() {
  const bool is_whole = received_.collect(*stream_, kPlanBytes);
  std::string error;
  if (is_whole) {
    plan_ = decode_plan(received_.bytes(), error);
  } else if (!is_start_of_plan(received_.bytes())) {
    error = "it does not speak the protocol of lyre perf";
  } else if (stream_->is_at_end()) {
    error = "it left without a word";
  }
  if (!error.empty()) throw StreamError(error);
  return is_whole;
}

bool Conversation::take_welcome() {
  if (!received_.collect(*stream_, kWelcomeBytes)) {
    if (stream_->is_at_end()) throw StreamError("it hung up instead of welcoming us");
    return false;
  }
  const std::string error = check_welcome(received_.bytes());
  if (!error.empty()) throw StreamError(error);
  return true;
}

bool Conversation::exchange(int64_t now) {
  const bool has_worked = exchange_->step(*stream_, now);
  if (!exchange_->is_done() || !stream_->try_flush()) return has_worked;
  completed_ns_ = now_ns();
  stream_->finish();
  phase_ = Phase::kPart;
  return true;
}

/// Nothing that happens now can change the outcome.
bool Conversation::part(int64_t now) {
  if (now - completed_ns_ > kPartTimeoutNs) return true;
  try {
    if (!stream_->peek().empty()) return true;
    return stream_->is_at_end();
  } catch (const StreamError&) {
    return true;
  }
}

}  // namespace lyre::perf
