#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace lyre::client {

/// What the kernel accounts of a thread's waits for a core: the run delay of its schedstat.
struct RunDelay {
  int thread = 0;         ///< its identifier
  int64_t waited_ns = 0;  ///< how long it was runnable without a core, in all
  int64_t turns = 0;      ///< how often it got one
};

/// What a thread that polls, and yields in between, should do about its core. Beside a thread that
/// computes, sched_yield() costs a time slice of 1.4 to 4 ms each time, and the kernel's balancer
/// may leave the two together for seconds. The account tells such a thread from threads of Lyre,
/// which give the core back within some 10 us.
/// Thread: its owner's.
class Starvation {
 public:
  enum class Advice : uint8_t { kPoll, kMove, kRest };

  /// What is compared covers at least this.
  static constexpr int64_t kLookNs = 4'000'000;
  /// A caller that did not call for so long has paused, and begins anew. Less is what several
  /// computing threads on its core take before it gets its turn.
  static constexpr int64_t kPauseNs = 30'000'000;
  /// Starved: it waited for at least half of the time, and so long on the average.
  static constexpr int64_t kWaitNsMin = 300'000;
  /// Who is starved so soon after a move rests instead: other cores are busy, too.
  static constexpr int64_t kMoveAgainNs = 30'000'000;
  /// For how long a thread that was told to move keeps off that core, at first and at most. The
  /// same advice soon after that, within kForgetNs, doubles the time.
  static constexpr int64_t kAwayNsMin = 1'000'000'000;
  static constexpr int64_t kAwayNsMax = 16'000'000'000;
  /// For how long the advice to rest is valid, at first and at most. The same advice again soon,
  /// within kForgetNs, doubles the time.
  static constexpr int64_t kRestNsMin = 16'000'000;
  static constexpr int64_t kRestNsMax = 320'000'000;
  static constexpr int64_t kForgetNs = 100'000'000;

  /// At `now_ns`, between two polls. `read` returns std::optional<RunDelay> of the calling thread;
  /// nothing where the kernel does not tell. It is called once in kLookNs at most.
  template <typename Read>
  Advice advise(int64_t now_ns, Read read) {
    if (now_ns < rest_until_ns_) return Advice::kRest;
    // What follows a pause shall not wait for the account, which takes some 10 us.
    if (now_ns - std::exchange(called_ns_, now_ns) >= kPauseNs) begin(now_ns, std::nullopt);
    if (now_ns - looked_ns_ < kLookNs) return Advice::kPoll;
    const std::optional<RunDelay> now = read();
    const bool is_starved = now && before_ && is_starvation(*now, now_ns);
    begin(now_ns, now);
    return is_starved ? respond(now_ns) : Advice::kPoll;
  }

  /// After kMove.
  int64_t away_ns() const { return away_ns_; }

 private:
  void begin(int64_t now_ns, const std::optional<RunDelay>& delay) {
    looked_ns_ = now_ns;
    before_ = delay;
  }
  bool is_starvation(const RunDelay& now, int64_t now_ns) const {
    if (now.thread != before_->thread) return false;
    const int64_t waited_ns = now.waited_ns - before_->waited_ns;
    const int64_t turns = now.turns - before_->turns;
    return waited_ns * 2 >= now_ns - looked_ns_ && waited_ns >= turns * kWaitNsMin;
  }
  Advice respond(int64_t now_ns) {
    if (!moved_ns_ || now_ns - *moved_ns_ >= kMoveAgainNs) {
      const bool is_soon = moved_ns_ && now_ns - *moved_ns_ - away_ns_ < kForgetNs;
      away_ns_ = is_soon ? std::min(away_ns_ * 2, kAwayNsMax) : kAwayNsMin;
      moved_ns_ = now_ns;
      return Advice::kMove;
    }
    const bool is_soon = now_ns - rest_until_ns_ < kForgetNs;
    rest_ns_ = is_soon ? std::min(rest_ns_ * 2, kRestNsMax) : kRestNsMin;
    rest_until_ns_ = now_ns + rest_ns_;
    before_.reset();
    return Advice::kRest;
  }

  std::optional<RunDelay> before_;
  int64_t looked_ns_ = 0;  ///< when what is compared began
  int64_t called_ns_ = INT64_MIN / 2;
  std::optional<int64_t> moved_ns_;
  int64_t away_ns_ = kAwayNsMin;
  int64_t rest_ns_ = kRestNsMin;
  int64_t rest_until_ns_ = INT64_MIN / 2;
};

}  // namespace lyre::client
