#include "daemon/base/background_jobs.h"

#include <system_error>
#include <utility>

namespace lyre {

BackgroundJobs::~BackgroundJobs() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  has_work_.notify_one();
  thread_.join();
}

void BackgroundJobs::submit(uint32_t id, std::function<void()> job) {
  if (!begin()) {
    job();
    const std::lock_guard lock(mutex_);
    done_.push_back(id);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({id, std::move(job)});
  }
  has_work_.notify_one();
}

/// False: the system gives no thread now.
bool BackgroundJobs::begin() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { run_jobs(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

std::vector<uint32_t> BackgroundJobs::take_done() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void BackgroundJobs::run_jobs() {
  std::unique_lock lock(mutex_);
  for (;;) {
    has_work_.wait(lock, [this] { return !jobs_.empty() || is_ending_; });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job.run();
    lock.lock();
    done_.push_back(job.id);
  }
}

}  // namespace lyre
