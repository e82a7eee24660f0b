#include "stack/base/time_slice.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace lyre {
namespace {

/// The calling thread's time slice as the kernel tells it; 0 before Linux 6.12.
Nanos own_time_slice() {
  std::array<uint64_t, 6> attributes{};  // struct sched_attr, first version; the fourth: runtime
  EXPECT_EQ(::syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0), 0);
  return nanos(static_cast<int64_t>(attributes[3]));
}

template <typename Body>
void in_a_thread(Body body) {
  std::thread(body).join();
}

TEST(TimeSlice, IsShortOnceAskedFor) {
  in_a_thread([] {
    const Nanos before = own_time_slice();
    if (before == nanos(0)) GTEST_SKIP() << "this kernel has no slices by thread";
    ask_for_short_time_slices();
    EXPECT_EQ(own_time_slice(), kShortTimeSlice);
  });
}

TEST(TimeSlice, OfAnotherClassStaysAsItIs) {
  in_a_thread([] {
    if (own_time_slice() == nanos(0)) GTEST_SKIP() << "this kernel has no slices by thread";
    const sched_param none{};
    ASSERT_EQ(::sched_setscheduler(0, SCHED_BATCH, &none), 0);
    ask_for_short_time_slices();
    EXPECT_EQ(::sched_getscheduler(0), SCHED_BATCH);
    EXPECT_NE(own_time_slice(), kShortTimeSlice);
  });
}

}  // namespace
}  // namespace lyre
