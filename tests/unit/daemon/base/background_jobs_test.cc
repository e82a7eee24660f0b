#include "daemon/base/background_jobs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/deadline.h"

namespace lyre {
namespace {

using Owner = BackgroundJobs::Owner;

/// The first job waits until the test opens the gate, so that all that follow wait in their queues.
class BackgroundJobsTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kGate = 1000;

  ~BackgroundJobsTest() override { open(); }
  void close() {
    jobs_.submit(kGate, {.user = 0, .client = 0}, [this] {
      has_begun_ = true;
      is_open_.wait(false);
    });
    while (!has_begun_) std::this_thread::yield();
  }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }
  void submit(uint32_t id, const Owner& owner) {
    jobs_.submit(id, owner, [] {});
  }
  /// What is done, in order, when `count` more jobs are.
  std::vector<uint32_t> done(size_t count) {
    std::vector<uint32_t> out;
    const test::Deadline deadline;
    while (out.size() < count && !deadline.is_over()) {
      for (const uint32_t id : jobs_.take_done()) {
        if (id != kGate) out.push_back(id);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return out;
  }

  std::atomic<bool> has_begun_{false};
  std::atomic<bool> is_open_{false};
  BackgroundJobs jobs_;
};

TEST_F(BackgroundJobsTest, UsersTakeTurns) {
  close();
  for (const uint32_t id : {1, 2, 3, 4}) submit(id, {.user = 100, .client = 1});
  submit(5, {.user = 200, .client = 2});
  submit(6, {.user = uint64_t{1} << 32, .client = 3});
  open();
  EXPECT_EQ(done(6), (std::vector<uint32_t>{1, 5, 6, 2, 3, 4}));
}

TEST_F(BackgroundJobsTest, ManyClientsOfAUserHaveItsTurnsOnly) {
  close();
  for (uint32_t client = 1; client <= 4; ++client) submit(client, {.user = 100, .client = client});
  submit(5, {.user = 200, .client = 9});
  submit(6, {.user = 200, .client = 9});
  open();
  EXPECT_EQ(done(6), (std::vector<uint32_t>{1, 5, 2, 6, 3, 4}));
}

TEST_F(BackgroundJobsTest, ClientsOfAUserTakeTurns) {
  close();
  for (const uint32_t id : {1, 2, 3}) submit(id, {.user = 100, .client = 1});
  submit(4, {.user = 100, .client = 2});
  open();
  EXPECT_EQ(done(4), (std::vector<uint32_t>{1, 4, 2, 3}));
}

TEST_F(BackgroundJobsTest, NoneBeginsDuringAPause) {
  close();
  submit(1, {.user = 100, .client = 1});
  jobs_.set_paused(true);
  open();
  std::atomic<bool> is_done{false};
  jobs_.submit(2, {.user = 100, .client = 1}, [&] { is_done = true; });
  // The gate is the only job that ends.
  while (jobs_.take_done().empty()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(jobs_.take_done().empty());
  EXPECT_FALSE(is_done);
  jobs_.set_paused(false);
  EXPECT_EQ(done(2), (std::vector<uint32_t>{1, 2}));
}

TEST_F(BackgroundJobsTest, ThoseThatWaitAreCountedForTheirUser) {
  close();
  for (const uint32_t id : {1, 2, 3}) submit(id, {.user = 100, .client = id});
  submit(4, {.user = 200, .client = 4});
  EXPECT_EQ(jobs_.waiting_of(100), 3u);
  EXPECT_EQ(jobs_.waiting_of(200), 1u);
  EXPECT_EQ(jobs_.waiting_of(300), 0u);
  open();
  done(4);
  EXPECT_EQ(jobs_.waiting_of(100), 0u);
}

TEST_F(BackgroundJobsTest, BytesCountForTheirUserUntilTheJobIsDone) {
  std::atomic<bool> has_begun{false}, may_end{false};
  const auto hold = [&] {
    has_begun = true;
    may_end.wait(false);
  };
  const auto nothing = [] {};
  close();
  jobs_.submit(1, {.user = 100, .client = 1}, hold, 30);
  jobs_.submit(2, {.user = 100, .client = 2}, nothing, 12);
  submit(3, {.user = 100, .client = 2});
  jobs_.submit(4, {.user = 200, .client = 3}, nothing, 7);
  EXPECT_EQ(jobs_.undone_bytes_of(100), 42u);
  EXPECT_EQ(jobs_.undone_bytes_of(200), 7u);
  EXPECT_EQ(jobs_.undone_bytes_of(300), 0u);
  open();
  while (!has_begun) std::this_thread::yield();
  EXPECT_EQ(jobs_.waiting_of(100), 2u);
  EXPECT_EQ(jobs_.undone_bytes_of(100), 42u) << "one is under way";
  may_end = true;
  may_end.notify_all();
  EXPECT_EQ(done(4).size(), 4u);
  EXPECT_EQ(jobs_.undone_bytes_of(100), 0u);
  EXPECT_EQ(jobs_.undone_bytes_of(200), 0u);
}

TEST(BackgroundJobsEnd, AllJobsAreDoneAlsoDuringAPause) {
  int done = 0;
  {
    BackgroundJobs jobs;
    jobs.set_paused(true);
    for (uint32_t i = 0; i < 3; ++i) jobs.submit(i, {.user = i, .client = i}, [&] { ++done; });
  }
  EXPECT_EQ(done, 3);
}

}  // namespace
}  // namespace lyre
