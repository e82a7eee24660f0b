#include "stack/io/dpdk/short_sleeps.h"

#include <unistd.h>

namespace lyre::io::dpdk {
namespace {

constexpr long kSleepNsMax = 10'000'000;
/// Its default action is to ignore it; no code here handles it.
constexpr int kSignal = SIGURG;

}  // namespace

ShortSleeps::ShortSleeps() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  // Other calls continue. A sleep never does (signal(7)).
  action.sa_flags = SA_RESTART;
  has_handler_ = ::sigaction(kSignal, &action, &before_) == 0;
  if (!has_handler_) return;
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = kSignal;
  event._sigev_un._tid = ::gettid();
  has_timer_ = ::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
  if (!has_timer_) return;
  const itimerspec period{.it_interval = {.tv_sec = 0, .tv_nsec = kSleepNsMax},
                          .it_value = {.tv_sec = 0, .tv_nsec = kSleepNsMax}};
  ::timer_settime(timer_, 0, &period, nullptr);
}

ShortSleeps::~ShortSleeps() {
  if (has_timer_) ::timer_delete(timer_);
  if (has_handler_) ::sigaction(kSignal, &before_, nullptr);
}

}  // namespace lyre::io::dpdk
