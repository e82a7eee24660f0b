#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lyre {

/// Carries out jobs that take long, one after the other, on a thread of its own. The thread begins
/// with the first job.
/// Thread: the control thread. Owner: the destructor waits until all jobs are done.
class BackgroundJobs {
 public:
  BackgroundJobs() = default;
  ~BackgroundJobs();
  BackgroundJobs(const BackgroundJobs&) = delete;
  BackgroundJobs& operator=(const BackgroundJobs&) = delete;

  /// Without a thread the caller carries the job out.
  void submit(uint32_t id, std::function<void()> job);
  /// Jobs that have been done since the last call, in their order.
  std::vector<uint32_t> take_done();

 private:
  struct Job {
    uint32_t id = 0;
    std::function<void()> run;
  };
  bool begin();
  void run_jobs();

  std::mutex mutex_;  ///< guards what follows, but for the thread itself
  std::condition_variable has_work_;
  std::deque<Job> jobs_;
  std::vector<uint32_t> done_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace lyre
