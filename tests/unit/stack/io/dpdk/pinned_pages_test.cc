#include "stack/io/dpdk/pinned_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <set>

#include "tests/support/sanitized.h"
#include "tests/unit/stack/io/dpdk/shared_pages.h"

namespace lyre::io::dpdk {
namespace {

using ::testing::ElementsAreArray;

Result<PinnedPages> pin(const SharedPages& memory) {
  return PinnedPages::pin(memory.data(), memory.bytes(), kTestPageBytes);
}

TEST(PinnedPages, KnowsWhereEachPageLies) {
  const SharedPages memory(64);
  if (!memory.can_be_seen()) GTEST_SKIP() << "physical addresses are root's to see";
  const auto pages = pin(memory);
  ASSERT_TRUE(pages.ok()) << pages.error().text;
  EXPECT_THAT(pages.value().addresses(), ElementsAreArray(memory.addresses()));
}

// The entries are read in pieces: these pages take two of them, and part of a third.
/// Without CAP_IPC_LOCK, which is not looked at.
bool may_lock(size_t bytes) {
  rlimit limit = {};
  return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur >= bytes;
}

TEST(PinnedPages, KnowsWhereThoseOfALargeMemoryLie) {
  const SharedPages memory(2 * 8192 + 64);
  if (!memory.can_be_seen()) GTEST_SKIP() << "physical addresses are root's to see";
  const auto pages = pin(memory);
  if (!pages.ok() && pages.error().code == ENOMEM && !may_lock(memory.bytes())) {
    GTEST_SKIP() << "needs CAP_IPC_LOCK, or a larger RLIMIT_MEMLOCK";
  }
  ASSERT_TRUE(pages.ok()) << pages.error().text;
  EXPECT_THAT(pages.value().addresses(), ElementsAreArray(memory.addresses()));
}

// The exception ended the daemon, in the thread that maps memory.
TEST(PinnedPages, RefusesMemoryForWhoseAddressesThereIsNone) {
  if (test::kIsSanitized) {
    GTEST_SKIP() << "does not apply: the sanitizer ends a process that asks for so much";
  }
  const size_t bytes = SIZE_MAX / kTestPageBytes * kTestPageBytes;
  const auto pages = PinnedPages::pin(nullptr, bytes, kTestPageBytes, kTestPageBytes);
  ASSERT_FALSE(pages.ok());
  EXPECT_EQ(pages.error().code, ENOMEM);
}

/// A malicious client punches a hole to read the memory of others: a NIC would send what the page
/// then contains.
TEST(PinnedPages, AreNobodyElsesAfterTheirOwnerPunchedThemOut) {
  const SharedPages memory(64);
  if (!memory.can_be_seen()) GTEST_SKIP() << "physical addresses are root's to see";
  const auto pages = pin(memory);
  ASSERT_TRUE(pages.ok()) << pages.error().text;
  ASSERT_TRUE(memory.punch());
  const SharedPages next(16384);  // 64 MiB: freed pages are the first to be allocated again
  const std::vector<uint64_t> taken = next.addresses();
  const std::set<uint64_t> others(taken.begin(), taken.end());
  for (const uint64_t address : pages.value().addresses()) {
    ASSERT_EQ(others.count(address), 0u) << std::hex << address << " was allocated again";
  }
}

TEST(PinnedPages, RefusesWhatIsNotWholePages) {
  constexpr size_t kLarge = 65536;
  const SharedPages memory(32);
  const auto aligned = [&](size_t at) {
    return reinterpret_cast<const uint8_t*>(
        (reinterpret_cast<uintptr_t>(memory.data()) + kLarge) / kLarge * kLarge + at);
  };
  const auto code = [](const Result<PinnedPages>& pages) {
    return pages.ok() ? 0 : pages.error().code;
  };
  EXPECT_EQ(code(PinnedPages::pin(aligned(0), 4096, 4096, kLarge)), EINVAL) << "smaller than one";
  EXPECT_EQ(code(PinnedPages::pin(aligned(0), 4096, kLarge, kLarge)), EINVAL);
  EXPECT_EQ(code(PinnedPages::pin(aligned(4096), kLarge, kLarge, kLarge)), EINVAL);
}

TEST(PinnedPages, RefusesMemoryThatItCannotTake) {
  const SharedPages read_only(4, PROT_READ);
  EXPECT_FALSE(pin(read_only).ok());
  const SharedPages gone(4);
  ::munmap(gone.data(), gone.bytes());
  EXPECT_FALSE(pin(gone).ok());
}

}  // namespace
}  // namespace lyre::io::dpdk
