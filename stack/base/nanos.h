#pragma once

#include <compare>
#include <cstdint>

namespace lyre {

/// A point on the monotonic clock, or a duration. Units: nanoseconds. Time is an argument, taken
/// once a poll. Only stack/io/dpdk reads a clock, to measure how long a driver takes.
struct Nanos {
  int64_t value = 0;

  friend constexpr auto operator<=>(Nanos, Nanos) = default;
  friend constexpr Nanos operator+(Nanos a, Nanos b) { return {a.value + b.value}; }
  friend constexpr Nanos operator-(Nanos a, Nanos b) { return {a.value - b.value}; }
  friend constexpr Nanos operator*(Nanos a, int64_t factor) { return {a.value * factor}; }
  friend constexpr Nanos operator/(Nanos a, int64_t divisor) { return {a.value / divisor}; }
  constexpr Nanos& operator+=(Nanos other) {
    value += other.value;
    return *this;
  }
};

/// Later than every deadline: "no timer is armed".
inline constexpr Nanos kNever{INT64_MAX};

constexpr Nanos nanos(int64_t count) { return {count}; }
constexpr Nanos micros(int64_t count) { return {count * 1'000}; }
constexpr Nanos millis(int64_t count) { return {count * 1'000'000}; }
constexpr Nanos seconds(int64_t count) { return {count * 1'000'000'000}; }

constexpr Nanos earlier(Nanos a, Nanos b) { return a < b ? a : b; }
constexpr Nanos later(Nanos a, Nanos b) { return a < b ? b : a; }

}  // namespace lyre
