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
  if (work > 0) {
    last_work_ = now;
    blind_sleep_ = kBlindSleepMin;
    return {Action::kPoll, {}};
  }
  if (now - last_work_ < spin_) return {Action::kYield, {}};
  Nanos longest = kWokenSleepMax;
  if (!can_be_woken_) {
    longest = blind_sleep_;
    const bool is_long_idle = now - last_work_ > kBlindIdleAfter;
    blind_sleep_ = earlier(blind_sleep_ * 2, is_long_idle ? kBlindSleepIdle : kBlindSleepMax);
  }
  const Nanos sleep = deadline == kNever ? longest : earlier(longest, deadline - now);
  if (sleep < kSleepMin) return {Action::kYield, {}};
  return {Action::kSleep, sleep};
}

}  // namespace lyre
