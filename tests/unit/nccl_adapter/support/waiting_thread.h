#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace lyre::nccl_adapter {

inline bool is_asleep(int thread) {
  if (thread == 0) return false;
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  return text.find(") S ") != std::string::npos;
}

/// Starts a thread that calls. Returns when it waits for this one, which is in a call.
inline std::thread start_waiting(std::function<void()> call) {
  std::atomic<int> number{0};
  std::thread thread([&number, call = std::move(call)] {
    number = ::gettid();
    call();
  });
  for (int ms = 0; ms < 10'000 && !is_asleep(number); ++ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(is_asleep(number));
  return thread;
}

}  // namespace lyre::nccl_adapter
