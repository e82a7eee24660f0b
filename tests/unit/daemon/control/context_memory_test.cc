#include <gtest/gtest.h>

#include <cerrno>

#include "daemon/base/daemon_limits.h"
#include "daemon/config/config.h"
#include "daemon/control/context_registry.h"
#include "stack/channel/abi.h"
#include "stack/channel/ring.h"
#include "tests/unit/daemon/fake_workers.h"

// How much memory a context has, and for whom it counts.
namespace lyre {
namespace {

constexpr const char* kOnePort =
    "[[port]]\nname = \"rail0\"\ndevice = \"sim0\"\naddress = \"10.9.0.1/24\"\n";

RegistryOptions small_options() { return {.contexts_max = 4, .arena_bytes_max = 8 << 20}; }

AttachTerms small_terms(uint32_t uid) {
  return {.identity = {.pid = 42, .uid = uid, .gid = 1}, .arena_bytes = 1 << 20, .label = "test"};
}

TEST(ContextMemoryShare, IsCopiedIntoByWorkersThatShareTheRoom) {
  for (const uint32_t count : {1u, 4u, 5u, 16u, channel::kWorkersMax}) {
    FakeWorkers workers{count};
    ContextRegistry registry(workers, small_options());
    ASSERT_TRUE(registry.attach(small_terms(7)).ok());
    const uint64_t bytes = workers.posted[0][0].copy_bytes;
    EXPECT_GE(bytes, uint64_t{256} << 10) << count;
    EXPECT_LE(bytes, kCopyBytesPerWorkerMax) << count;
    EXPECT_LE(count * bytes, kCopyBytesPerContextMax) << count;
    EXPECT_EQ(bytes % 65536, 0u) << count;
  }
}

// Where each of 16 workers had 4 MiB for copies, and only arenas counted, 192 contexts with small
// arenas made the daemon hold 12 GiB.
TEST(ContextMemoryShare, CountsForTheUidWithRingsAndCopies) {
  FakeWorkers workers{16};
  RegistryOptions options = small_options();
  options.arena_bytes_per_uid_max = 40 << 20;
  ContextRegistry registry(workers, options);
  const auto first = registry.attach(small_terms(7));
  ASSERT_TRUE(first.ok()) << first.error().text;
  EXPECT_GT(first.value().context_bytes, uint64_t{17} << 20);
  EXPECT_TRUE(registry.attach(small_terms(7)).ok());
  const auto refused = registry.attach(small_terms(7));
  ASSERT_FALSE(refused.ok()) << "the arenas alone have 3 MiB";
  EXPECT_EQ(refused.error().code, EDQUOT);
  EXPECT_TRUE(registry.attach(small_terms(8)).ok()) << "another uid";
}

TEST(ContextMemoryShare, OfAllContextsOfAUidFitsTheDefaults) {
  constexpr uint32_t kWorkers = 32;
  const uint64_t bytes = channel::ContextLayout::of(kWorkers, channel::kArenaBytesDefault,
                                                    kWorkers * copy_bytes_per_worker(kWorkers))
                             .total_bytes;
  const Config config = parse_config(kOnePort, "test").value();
  EXPECT_LE(config.contexts_per_uid_max * bytes, config.arena_bytes_per_uid_max);
}

}  // namespace
}  // namespace lyre
