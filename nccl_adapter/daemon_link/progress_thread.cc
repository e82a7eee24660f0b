#include "nccl_adapter/daemon_link/progress_thread.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <utility>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

ProgressThread::ProgressThread(std::function<void()> work) : work_(std::move(work)) {
  // The application's signals are the application's threads' business.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread_.native_handle(), "lyre-progress");
}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ProgressThread::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::nanoseconds(kProgressThreadNs),
                            [this] { return is_over_; })) {
    lock.unlock();
    work_();
    lock.lock();
  }
}

}  // namespace lyre::nccl_adapter
