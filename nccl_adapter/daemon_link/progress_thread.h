#pragma once

#include <pthread.h>

#include <functional>
#include <thread>

namespace lyre::nccl_adapter {

/// A thread that calls `work` every kProgressThreadNs. NCCL does not call the plugin while it
/// computes; a peer that redials and a daemon that was restarted must not wait for that. Owner: the
/// instance; the destructor waits for a call under way. No signal is handled on it.
class ProgressThread {
 public:
  explicit ProgressThread(std::function<void()> work);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

 private:
  void run();

  std::function<void()> work_;
  // Not std::condition_variable: its waits by the monotonic clock need glibc 2.30.
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace lyre::nccl_adapter
