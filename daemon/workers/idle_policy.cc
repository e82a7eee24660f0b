#include "daemon/workers/idle_policy.h"

#include <algorithm>

#include "daemon/base/daemon_limits.h"

namespace lyre {

namespace {
/// A shorter wait is not worth a system call.
constexpr Nanos kSleepMin = micros(10);
}  // namespace

IdlePolicy::IdlePolicy(IdleMode mode, Nanos spin, Nanos awake)
    : mode_(mode), spin_(spin), short_gaps_(awake), unsure_sleep_(kUnsureSleepMin) {}

void IdlePolicy::on_submissions(size_t count, Nanos now) {
  short_gaps_.on_submissions(count, now - last_submission_);
  last_submission_ = now;
}

void IdlePolicy::on_yield(Nanos took, Nanos now) {
  contention_.on_yield(took, now);
  vain_polls_.on_yield(took);
}

IdlePolicy::Decision IdlePolicy::after_turn(size_t work, Nanos now, Nanos deadline) {
  if (mode_ == IdleMode::kBusy) return {.action = Action::kPoll};
  // The time between two turns' starts: a turn that found nothing, which is short, and the yield.
  const Nanos yield = has_yielded_ ? now - turned_at_ : Nanos{0};
  if (has_yielded_) on_yield(yield, now);
  has_given_freely_ = work == 0 && yield >= CoreContention::kSlice;
  turned_at_ = now;
  vain_polls_.on_turn(work);
  Decision decision;
  if (work > 0) {
    contended_poll_.on_work(now - last_work_);
    last_work_ = now;
    unsure_sleep_ = kUnsureSleepMin;
  } else {
    decision = after_idle_turn(now, deadline);
  }
  has_yielded_ = decision.action == Action::kYield;
  return decision;
}

IdlePolicy::Decision IdlePolicy::after_idle_turn(Nanos now, Nanos deadline) {
  const bool is_contended = contention_.is_contended(now);
  const Nanos idle = now - last_work_;
  const bool is_in_vain = vain_polls_.must_sleep();
  const bool may_poll = !is_contended && !is_in_vain;
  const Nanos unasked = now - last_submission_;
  const Nanos expected = may_poll ? short_gaps_.until_expected(unasked) : kNever;
  const bool may_yield = may_poll && (idle < spin_ || short_gaps_.is_in_step(unasked));
  if (may_yield || expected == Nanos{0}) {
    return {.action = Action::kYield, .is_step_due = expected == Nanos{0}};
  }
  if (is_contended && !is_in_vain && contended_poll_.must_go_on(idle)) return {};
  const Nanos due = deadline == kNever ? kNever : deadline - now;
  const Nanos longest = std::min({kSleepMax, due, expected});
  if (longest < kSleepMin) return {.action = may_poll ? Action::kYield : Action::kPoll};
  return {.action = Action::kSleep,
          .sleep = longest,
          .unsure_sleep = earlier(longest, next_unsure_sleep(now, !may_poll))};
}

Nanos IdlePolicy::next_unsure_sleep(Nanos now, bool is_wanted) {
  const Nanos idle = now - last_work_;
  if (is_wanted && idle < kUnsureContendedFor) return kUnsureSleepContended;
  const Nanos longest = idle > kUnsureIdleAfter ? kUnsureSleepIdle : kUnsureSleepMax;
  const Nanos sleep = unsure_sleep_;
  unsure_sleep_ = earlier(unsure_sleep_ * 2, longest);
  return sleep;
}

}  // namespace lyre
