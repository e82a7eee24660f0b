#include "stack/io/dpdk/page_memory.h"

#include <gtest/gtest.h>

#include "tests/unit/core_dump.h"

namespace lyre::io::dpdk {
namespace {

// A crash wrote the packets to the disk.
TEST(PageMemory, IsLeftOutOfACore) {
  if (!tells_what_a_core_has()) GTEST_SKIP() << "needs VmFlags of /proc/self/smaps";
  auto memory = PageMemory::map("lyre-test", 1, PageKind::kOrdinary);
  ASSERT_TRUE(memory.ok()) << memory.error().text;
  EXPECT_TRUE(is_left_out_of_core(memory->base()));
}

}  // namespace
}  // namespace lyre::io::dpdk
