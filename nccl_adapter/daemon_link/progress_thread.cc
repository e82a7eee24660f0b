#include "nccl_adapter/daemon_link/progress_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <utility>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {
namespace {

timespec after(int64_t ns) {
  timespec when{};
  ::clock_gettime(CLOCK_MONOTONIC, &when);
  const int64_t sum_ns = when.tv_nsec + ns;
  when.tv_sec += sum_ns / kNsPerSecond;
  when.tv_nsec = sum_ns % kNsPerSecond;
  return when;
}

/// Blocks all signals of this thread, and of those that it starts, while it lives.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

ProgressThread::ProgressThread(std::function<void()> work) : work_(std::move(work)) {
  pthread_condattr_t attributes;
  ::pthread_condattr_init(&attributes);
  ::pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  ::pthread_cond_init(&changed_, &attributes);
  ::pthread_condattr_destroy(&attributes);
  // Signals are for the application's threads: this one blocks them all.
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "lyre-progress");
}

ProgressThread::~ProgressThread() {
  ::pthread_mutex_lock(&mutex_);
  is_over_ = true;
  ::pthread_mutex_unlock(&mutex_);
  ::pthread_cond_signal(&changed_);
  thread_.join();
  ::pthread_cond_destroy(&changed_);
}

void ProgressThread::run() {
  ::pthread_mutex_lock(&mutex_);
  while (!is_over_) {
    const timespec next = after(kProgressThreadNs);
    int rc = 0;
    while (!is_over_ && rc != ETIMEDOUT) rc = ::pthread_cond_timedwait(&changed_, &mutex_, &next);
    if (is_over_) break;
    ::pthread_mutex_unlock(&mutex_);
    work_();
    ::pthread_mutex_lock(&mutex_);
  }
  ::pthread_mutex_unlock(&mutex_);
}

}  // namespace lyre::nccl_adapter
