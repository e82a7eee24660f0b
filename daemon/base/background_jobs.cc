#include "daemon/base/background_jobs.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

namespace lyre {
namespace {

/// The entry behind `last`, or the first one.
template <typename Map>
typename Map::iterator next_of(Map& map, typename Map::key_type last) {
  const auto next = map.upper_bound(last);
  return next == map.end() ? map.begin() : next;
}

}  // namespace

BackgroundJobs::~BackgroundJobs() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  has_work_.notify_one();
  thread_.join();
}

void BackgroundJobs::submit(uint32_t id, const Owner& owner, std::function<void()> job,
                            uint64_t bytes) {
  if (!begin()) {
    job();
    const std::lock_guard lock(mutex_);
    make_room_in_done();
    done_.push_back(id);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    make_room_in_done();
    users_[owner.user].clients[owner.client].push_back({id, std::move(job), bytes});
    ++undone_;
  }
  has_work_.notify_one();
}

/// For all jobs that wait or are under way, and one more: the thread allocates nothing.
void BackgroundJobs::make_room_in_done() {
  const size_t needed = done_.size() + undone_ + 1;
  if (needed > done_.capacity()) done_.reserve(std::max(needed, 2 * done_.capacity()));
}

/// False: the system gives no thread now.
bool BackgroundJobs::begin() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { run_jobs(); });
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void BackgroundJobs::set_paused(bool is_paused) {
  {
    const std::lock_guard lock(mutex_);
    is_paused_ = is_paused;
  }
  has_work_.notify_one();
}

size_t BackgroundJobs::waiting_of(uint64_t user) const {
  const std::lock_guard lock(mutex_);
  const auto found = users_.find(user);
  if (found == users_.end()) return 0;
  size_t count = 0;
  for (const auto& [client, jobs] : found->second.clients) count += jobs.size();
  return count;
}

uint64_t BackgroundJobs::undone_bytes_of(uint64_t user) const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = user == last_user_ ? running_bytes_ : 0;
  const auto found = users_.find(user);
  if (found == users_.end()) return bytes;
  for (const auto& [client, jobs] : found->second.clients) {
    for (const Job& job : jobs) bytes += job.bytes;
  }
  return bytes;
}

/// A copy: `done_` keeps its room.
std::vector<uint32_t> BackgroundJobs::take_done() {
  const std::lock_guard lock(mutex_);
  std::vector<uint32_t> out(done_);
  done_.clear();
  return out;
}

void BackgroundJobs::run_jobs() {
  std::unique_lock lock(mutex_);
  for (;;) {
    has_work_.wait(lock, [this] { return may_run() || is_ending_; });
    if (users_.empty()) return;
    const Job job = take_next();
    running_bytes_ = job.bytes;
    lock.unlock();
    job.run();
    lock.lock();
    running_bytes_ = 0;
    done_.push_back(job.id);
    --undone_;
  }
}

BackgroundJobs::Job BackgroundJobs::take_next() {
  const auto user = next_of(users_, last_user_);
  last_user_ = user->first;
  auto& [clients, last] = user->second;
  const auto client = next_of(clients, last);
  last = client->first;
  Job job = std::move(client->second.front());
  client->second.pop_front();
  if (client->second.empty()) clients.erase(client);
  if (clients.empty()) users_.erase(user);
  return job;
}

}  // namespace lyre
