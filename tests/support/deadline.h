#pragma once

#include <chrono>

namespace lyre::test {

/// The timeout of a loop that waits for something; no test asserts a duration. A minimum number of
/// looks is always granted, so that a machine that was stopped for a while causes no failure.
class Deadline {
 public:
  explicit Deadline(std::chrono::steady_clock::duration patience = std::chrono::minutes(1))
      : end_(std::chrono::steady_clock::now() + patience) {}
  /// To be called once for each look.
  bool is_over() const { return ++looks_ > kLooksMin && std::chrono::steady_clock::now() > end_; }

 private:
  static constexpr int kLooksMin = 2000;
  mutable int looks_ = 0;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace lyre::test
