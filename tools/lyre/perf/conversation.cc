#include "tools/lyre/perf/conversation.h"

#include <algorithm>
#include <utility>

namespace lyre::perf {
namespace {

/// A peer that sends nothing for this long before the test does not speak this protocol.
constexpr int64_t kAgreeTimeoutNs = 10'000'000'000;
/// The longest wait for the peer's FIN.
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
  // Bytes that the transport had no room for. The phases that wait for an answer write nothing, so
  // nothing else sends these bytes.
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
  if (is_agreeing) throw StreamError("no valid answer within 10 seconds");
  return has_worked || phase_ != before;
}

bool Conversation::send_plan() { return try_write(*stream_, encode(*plan_)); }

bool Conversation::take_plan() {
  const bool is_whole = received_.collect(*stream_, kPlanBytes);
  std::string error;
  if (is_whole) {
    plan_ = decode_plan(received_.bytes(), error);
  } else if (!is_start_of_plan(received_.bytes())) {
    error = "the client does not use the protocol of lyre perf";
  } else if (stream_->is_at_end()) {
    error = "the client closed the connection before it sent a plan";
  }
  if (!error.empty()) throw StreamError(error);
  return is_whole;
}

bool Conversation::take_welcome() {
  if (!received_.collect(*stream_, kWelcomeBytes)) {
    if (stream_->is_at_end())
      throw StreamError("the server closed the connection instead of accepting the plan");
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

/// The outcome is final here, so errors are ignored.
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
