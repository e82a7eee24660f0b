#include "daemon/base/detached_job.h"

#include <system_error>
#include <thread>
#include <utility>

namespace lyre {

DetachedJob::DetachedJob(std::function<uint32_t()> job) : state_(std::make_shared<State>()) {
  state_->job = std::move(job);
}

bool DetachedJob::is_under_way() const {
  // Acquire: what the last run did comes before. Partner: the thread's release in begin().
  return state_->is_under_way.load(std::memory_order_acquire);
}

bool DetachedJob::begin() {
  if (is_under_way()) return false;
  // Relaxed: the thread that begins below sees it.
  state_->is_under_way.store(true, std::memory_order_relaxed);
  try {
    std::thread([state = state_] {
      // Relaxed: the release below orders it.
      state->results.fetch_add(state->job(), std::memory_order_relaxed);
      // Release: pairs with is_under_way().
      state->is_under_way.store(false, std::memory_order_release);
    }).detach();
  } catch (const std::system_error&) {
    state_->is_under_way.store(false, std::memory_order_relaxed);
    return false;
  }
  return true;
}

uint32_t DetachedJob::take_results() {
  // Relaxed: a lone counter.
  return state_->results.exchange(0, std::memory_order_relaxed);
}

}  // namespace lyre
