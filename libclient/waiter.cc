#include "libclient/waiter.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <climits>
#include <ctime>
#include <utility>

#include "libclient/clock.h"
#include "libclient/errors.h"
#include "libclient/include/lyre/lyre.h"
#include "libclient/own_thread.h"
#include "stack/base/time_slice.h"

namespace lyre::client {

namespace {

/// How long a waiting caller yields before it sleeps. Longer than a round trip on a local wire, so
/// that such an answer needs no wake-up.
constexpr int64_t kYieldNs = 50'000;

}  // namespace

void shorten_time_slices() {
  thread_local bool are_short = false;
  if (!std::exchange(are_short, true)) ask_for_short_time_slices();
}

int Waiter::adopt(UniqueFd wake, int control, std::atomic<uint32_t>& sleeps) {
  wake_ = std::move(wake);
  control_ = control;
  sleeps_ = &sleeps;
  const int flags = ::fcntl(wake_.get(), F_GETFL);
  ::fcntl(wake_.get(), F_SETFL, flags | O_NONBLOCK);
  poll_fd_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!poll_fd_.is_open()) return fail_for_descriptor("cannot make an epoll descriptor");
  if (watch(wake_.get()) && watch(control_)) return 0;
  return fail_errno(LYRE_E_NORESOURCES, "cannot watch the daemon's descriptors");
}

bool Waiter::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(poll_fd_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

bool Waiter::make_timer() {
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer.is_open() || !watch(timer.get())) return false;
  timer_ = std::move(timer);
  return true;
}

bool Waiter::set_timer(int64_t wait_ns) {
  if (is_timer_set_) return true;
  if (!timer_.is_open() && !make_timer()) return false;
  itimerspec after{};
  after.it_value = {wait_ns / 1'000'000'000, wait_ns % 1'000'000'000};
  is_timer_set_ = ::timerfd_settime(timer_.get(), 0, &after, nullptr) == 0;
  return is_timer_set_;
}

bool Waiter::disarm() {
  if (std::exchange(is_timer_set_, false)) {
    // This also makes it unreadable if it has expired.
    const itimerspec never{};
    ::timerfd_settime(timer_.get(), 0, &never, nullptr);
  }
  if (!std::exchange(is_armed_, false)) return false;
  sleeps_->store(0, std::memory_order_relaxed);
  eventfd_t rings = 0;
  ::eventfd_read(wake_.get(), &rings);
  return true;
}

bool Waiter::yield(int64_t now, int64_t idle_ns) {
  if (idle_ns >= kYieldNs || contention_.is_contended(nanos(now))) return false;
  ::sched_yield();
  const int64_t after = now_ns();
  contention_.on_yield(nanos(after - now), nanos(after));
  return true;
}

bool Waiter::sleep_until_ring(int64_t wait_ns) {
  pollfd entries[] = {{wake_.get(), POLLIN, 0}, {control_, POLLIN, 0}};
  const timespec limit{wait_ns / 1'000'000'000, wait_ns % 1'000'000'000};
  const bool is_bounded = wait_ns < int64_t{INT_MAX} * 1'000'000'000;
  ::ppoll(entries, 2, is_bounded ? &limit : nullptr, nullptr);
  // Relaxed: a superfluous wake-up does no harm.
  sleeps_->store(0, std::memory_order_relaxed);
  if (entries[0].revents != 0) {
    eventfd_t rings = 0;
    ::eventfd_read(wake_.get(), &rings);
  }
  return entries[1].revents != 0;
}

void Waiter::wake_armed() {
  if (!is_armed_) return;
  // A timer that is set already may expire later.
  is_timer_set_ = false;
  // Where no timer can be made, the ring itself: further sleeps end at once until disarm().
  if (!set_timer(1)) ::eventfd_write(wake_.get(), 1);
}

bool Waiter::must_rest(int64_t now) {
  shorten_time_slices();
  look(now);
  const Starvation::Advice advice = starvation_.advise(now, read_run_delay);
  if (advice == Starvation::Advice::kPoll) return false;
  come_back();  // it is starved where it is now
  if (advice == Starvation::Advice::kRest) return true;
  if (core_avoidance_.begin()) away_until_ = now + starvation_.away_ns();
  return false;
}

}  // namespace lyre::client
