#include "daemon/base/detached_job.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <thread>

namespace lyre {
namespace {

/// What a job waits for, as for a file that a client keeps busy.
struct Gate {
  std::promise<void> opening;
  std::shared_future<void> is_open = opening.get_future().share();
  std::promise<std::thread::id> arrival;
};

void await_end_of(const DetachedJob& job) {
  while (job.is_under_way()) std::this_thread::yield();
}

TEST(DetachedJob, RunsInAnotherThreadAndTellsItsResult) {
  const auto gate = std::make_shared<Gate>();
  DetachedJob job([gate] {
    gate->arrival.set_value(std::this_thread::get_id());
    return uint32_t{3};
  });
  EXPECT_FALSE(job.is_under_way());
  ASSERT_TRUE(job.begin());
  EXPECT_NE(gate->arrival.get_future().get(), std::this_thread::get_id());
  await_end_of(job);
  EXPECT_EQ(job.take_results(), 3u);
  EXPECT_EQ(job.take_results(), 0u);
}

// The caller is the control thread: clients could keep it from the watchdog.
TEST(DetachedJob, TheCallerDoesNotWaitForOneThatWaits) {
  const auto gate = std::make_shared<Gate>();
  const auto runs = std::make_shared<std::atomic<uint32_t>>(0);
  DetachedJob job([gate, runs] {
    ++*runs;
    gate->is_open.wait();
    return uint32_t{1};
  });
  ASSERT_TRUE(job.begin());
  EXPECT_FALSE(job.begin()) << "one at a time";
  EXPECT_TRUE(job.is_under_way());
  EXPECT_EQ(job.take_results(), 0u);
  gate->opening.set_value();
  await_end_of(job);
  EXPECT_EQ(*runs, 1u);
  ASSERT_TRUE(job.begin());
  await_end_of(job);
  EXPECT_EQ(job.take_results(), 2u);
}

TEST(DetachedJob, NobodyWaitsForItAtTheEnd) {
  const auto gate = std::make_shared<Gate>();
  const auto has_ended = std::make_shared<std::promise<void>>();
  {
    DetachedJob job([gate, has_ended] {
      gate->is_open.wait();
      has_ended->set_value();
      return uint32_t{0};
    });
    ASSERT_TRUE(job.begin());
  }
  gate->opening.set_value();
  has_ended->get_future().wait();
}

}  // namespace
}  // namespace lyre
