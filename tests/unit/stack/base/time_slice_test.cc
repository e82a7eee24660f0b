#include "stack/base/time_slice.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/time_slice_of_thread.h"

namespace lyre {
namespace {

using test::own_time_slice;

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
