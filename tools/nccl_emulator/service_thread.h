#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lyre::nccl_emulator {

/// NCCL's proxy service thread. All calls about comms but the traffic run on it: listen, connect,
/// accept, regMr, deregMr, close.
/// Thread: run() from any thread; the destructor, which runs what was queued, from one.
class ServiceThread {
 public:
  ServiceThread();
  ~ServiceThread();
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  /// Runs `task` there and waits for its end. Fails: throws what the task throws.
  void run(const std::function<void()>& task);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lyre::nccl_emulator
