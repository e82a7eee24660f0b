#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace lyre {

/// Carries out jobs that take long, one after the other, on a thread of its own. The thread begins
/// with the first job. Turns go by user, then by client, so that no one's jobs delay those of
/// others for longer than a job of each takes.
/// Thread: the control thread. Owner: the destructor waits until all jobs are done.
class BackgroundJobs {
 public:
  /// Whose job it is.
  struct Owner {
    uint64_t user = 0;
    uint32_t client = 0;
  };

  BackgroundJobs() = default;
  ~BackgroundJobs();
  BackgroundJobs(const BackgroundJobs&) = delete;
  BackgroundJobs& operator=(const BackgroundJobs&) = delete;

  /// Without a thread the caller carries the job out. Jobs of one client keep their order. `bytes`:
  /// what undone_bytes_of() counts.
  void submit(uint32_t id, const Owner& owner, std::function<void()> job, uint64_t bytes = 0);
  /// While true, no other job begins. The one that is under way goes on.
  void set_paused(bool is_paused);
  /// How many jobs of the user have not begun.
  size_t waiting_of(uint64_t user) const;
  /// Of the user's jobs that wait or are under way.
  uint64_t undone_bytes_of(uint64_t user) const;
  /// Jobs that have been done since the last call, in their order.
  std::vector<uint32_t> take_done();

 private:
  struct Job {
    uint32_t id = 0;
    std::function<void()> run;
    uint64_t bytes = 0;
  };
  struct User {
    std::map<uint32_t, std::deque<Job>> clients;  ///< those with jobs
    uint32_t last = 0;                            ///< who had the last turn
  };
  bool begin();
  void make_room_in_done();
  void run_jobs();
  bool may_run() const { return !users_.empty() && (!is_paused_ || is_ending_); }
  Job take_next();

  mutable std::mutex mutex_;  ///< guards what follows, but for the thread itself
  std::condition_variable has_work_;
  std::map<uint64_t, User> users_;  ///< those with jobs
  uint64_t last_user_ = 0;          ///< who had the last turn
  uint64_t running_bytes_ = 0;      ///< of that one's job, while it is under way
  std::vector<uint32_t> done_;      ///< has room for the undone ones
  size_t undone_ = 0;               ///< jobs that wait or are under way
  bool is_paused_ = false;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace lyre
