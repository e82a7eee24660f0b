#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "tests/support/deadline.h"

namespace lyre::client {

/// Keeps the calling thread on the core where it is, and another thread there that computes.
/// Afterwards the caller may run where it might before.
class SharedCore {
 public:
  SharedCore() {
    EXPECT_EQ(0, ::sched_getaffinity(0, sizeof before_, &before_));
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(static_cast<size_t>(::sched_getcpu()), &here);
    EXPECT_EQ(0, ::sched_setaffinity(0, sizeof here, &here));
    computing_ = std::thread([this] {  // inherits the affinity
      while (!is_over_.load(std::memory_order_relaxed)) continue;
    });
  }
  ~SharedCore() {
    is_over_.store(true, std::memory_order_relaxed);
    computing_.join();
    ::sched_setaffinity(0, sizeof before_, &before_);
  }
  SharedCore(const SharedCore&) = delete;
  SharedCore& operator=(const SharedCore&) = delete;

  /// Calls `is_done` and yields in turn. Fails when it is not true in time.
  template <typename Done>
  void yield_until(Done is_done) {
    const test::Deadline deadline;
    while (!is_done()) {
      if (deadline.is_over()) return ADD_FAILURE() << "not in time";
      ::sched_yield();
    }
  }

 private:
  cpu_set_t before_;
  std::atomic<bool> is_over_{false};
  std::thread computing_;
};

}  // namespace lyre::client
