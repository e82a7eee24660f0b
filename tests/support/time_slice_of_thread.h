#pragma once

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "stack/base/nanos.h"

namespace lyre::test {

/// The calling thread's time slice as the kernel tells it; 0 before Linux 6.12.
inline Nanos own_time_slice() {
  std::array<uint64_t, 6> attributes{};  // struct sched_attr, first version; the fourth: runtime
  EXPECT_EQ(::syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0), 0);
  return nanos(static_cast<int64_t>(attributes[3]));
}

}  // namespace lyre::test
