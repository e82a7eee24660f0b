#include "tools/nccl_emulator/service_thread.h"

#include <future>

namespace lyre::nccl_emulator {

ServiceThread::ServiceThread() : thread_([this] { loop(); }) {}

ServiceThread::~ServiceThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ServiceThread::run(const std::function<void()>& task) {
  std::packaged_task<void()> packaged(task);
  std::future<void> finished = packaged.get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.emplace_back([&packaged] { packaged(); });
  }
  changed_.notify_one();
  finished.get();
}

void ServiceThread::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace lyre::nccl_emulator
