#pragma once

#include <errno.h>
#include <sched.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

/// What the programs of tools/bench that time something by themselves have in common.
namespace lyre {

/// Units: ns of the monotonic clock, or of another one.
inline int64_t now_ns(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Ends the program with one line for the user.
[[noreturn]] inline void fail(const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", ::program_invocation_short_name, text.c_str());
  std::exit(1);
}

/// The calling thread, and those that it starts, run on this core alone.
inline void take_core(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  if (::sched_setaffinity(0, sizeof cores, &cores) != 0) fail("no such core");
}

}  // namespace lyre
