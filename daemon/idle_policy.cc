#include "daemon/idle_policy.h"

#include "daemon/daemon_limits.h"

namespace lyre {

namespace {
/// A shorter wait is not worth a system call.
constexpr Nanos kSleepMin = micros(10);
}  // namespace

IdlePolicy::IdlePolicy(IdleMode mode, Nanos spin, bool can_be_woken)
    : mode_(mode), spin_(spin), can_be_woken_(can_be_woken), blind_sleep_(kBlindSleepMin) {}

IdlePolicy::Decision IdlePolicy::after_turn(size_t work, Nanos now, Nanos deadline) {
  if (mode_ == IdleMode::kBusy) return {Action::kPoll, {}};
  // From one turn's start to the next: a turn that found nothing, and the yield, which is longer.
  if (has_yielded_) contention_.on_yield(now - turned_at_, now);
  turned_at_ = now;
  Decision decision;
  if (work > 0) {
    last_work_ = now;
    blind_sleep_ = kBlindSleepMin;
  } else {
    decision = after_idle_turn(now, deadline);
  }
  has_yielded_ = decision.action == Action::kYield;
  return decision;
}

IdlePolicy::Decision IdlePolicy::after_idle_turn(Nanos now, Nanos deadline) {
  const bool is_contended = contention_.is_contended(now);
  if (now - last_work_ < spin_ && !is_contended) return {Action::kYield, {}};
  const Nanos longest = can_be_woken_ ? kWokenSleepMax : blind_sleep(now, is_contended);
  const Nanos sleep = deadline == kNever ? longest : earlier(longest, deadline - now);
  if (sleep >= kSleepMin) return {Action::kSleep, sleep};
  return {is_contended ? Action::kPoll : Action::kYield, {}};
}

Nanos IdlePolicy::blind_sleep(Nanos now, bool is_contended) {
  const Nanos idle = now - last_work_;
  if (is_contended && idle < kBlindContendedFor) return kBlindSleepContended;
  const Nanos longest = idle > kBlindIdleAfter ? kBlindSleepIdle : kBlindSleepMax;
  const Nanos sleep = blind_sleep_;
  blind_sleep_ = earlier(blind_sleep_ * 2, longest);
  return sleep;
}

}  // namespace lyre
