#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "daemon/base/daemon_limits.h"
#include "daemon/base/descriptor_queue.h"
#include "daemon/base/owned_fd.h"
#include "daemon/base/shared_memory.h"
#include "daemon/config/config.h"
#include "daemon/control/context_registry.h"
#include "daemon/protocol/handover_records.h"
#include "stack/base/page_size.h"
#include "stack/channel/abi.h"
#include "stack/channel/ring.h"
#include "stack/record/stream.h"
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

/// What a daemon left that gave each worker 4 MiB for copies: a context of uid 7 with 1 MiB.
struct LargeCopiesLeft {
  static constexpr uint32_t kWorkers = 16;

  LargeCopiesLeft() {
    const ClientRecord client{.generation = 1,
                              .uid = 7,
                              .abi_version = channel::kAbiVersions.min,
                              .arena_bytes = 1 << 20,
                              .copy_bytes = kWorkers * kCopyBytesPerWorkerMax,
                              .page_bytes = system_page_bytes(),
                              .is_attached = true};
    records.add(record::Kind::kClient, kDaemonHandoverVersion,
                [&](record::FieldWriter& fields) { list_client(fields, client); });
    const auto layout = channel::ContextLayout::of(kWorkers, client.arena_bytes, client.copy_bytes);
    auto memory = SharedMemory::create("lyre-test", layout.total_bytes, SharedWith::kWriters);
    EXPECT_TRUE(memory.ok());
    descriptors.add(memory->release());
    for (uint32_t i = 0; i < 2 + kWorkers; ++i) descriptors.add(OwnedFd(::eventfd(0, EFD_CLOEXEC)));
  }

  record::Writer records;
  DescriptorQueue descriptors;
};

// Clients that a daemon with 64 MiB of copies had attached took the whole share of their uid from
// the one that took over.
TEST(ContextMemoryShare, OfAContextThatWasTakenOverCountsAsThatOfANewOne) {
  FakeWorkers workers{LargeCopiesLeft::kWorkers};
  RegistryOptions options = small_options();
  options.arena_bytes_per_uid_max = 40 << 20;
  ContextRegistry registry(workers, options);
  LargeCopiesLeft left;
  record::Reader in(left.records.bytes());
  const Status taken =
      registry.take_over({.next_generation = 2, .client_count = 1}, {}, in, left.descriptors);
  ASSERT_TRUE(taken.ok()) << taken.error().text;
  const auto second = registry.attach(small_terms(7));
  EXPECT_TRUE(second.ok()) << second.error().text;
  EXPECT_FALSE(registry.attach(small_terms(7)).ok());
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
