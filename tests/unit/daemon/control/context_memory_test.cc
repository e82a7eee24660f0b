#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

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
#include "tests/support/deadline.h"
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

uint64_t bytes_with_pages(int file) {
  struct stat facts {};
  EXPECT_EQ(::fstat(file, &facts), 0);
  return static_cast<uint64_t>(facts.st_blocks) * 512;
}

/// A uid that may have one context, and has left it.
class LeftContext : public ::testing::TestWithParam<uint64_t> {
 protected:
  LeftContext() : registry_(workers_, options()) {
    const auto grant = attach();
    EXPECT_TRUE(grant.ok()) << grant.error().text;
    if (!grant.ok()) return;
    client_ = OwnedFd(::fcntl(grant.value().memory_fd, F_DUPFD_CLOEXEC, 0));
    const std::string path = "/proc/self/fd/" + std::to_string(client_.get());
    hidden_ = OwnedFd(::open(path.c_str(), O_PATH | O_CLOEXEC));
    const worker::Command& told = workers_.posted[0].back();
    arena_offset_ = told.arena_offset;
    std::memset(told.memory + told.arena_offset, 0x5a, told.arena_bytes);
    registry_.detach(grant.value().index, false);
    workers_.answer_detaches();
    poll();
  }

  RegistryOptions options() const {
    RegistryOptions out = small_options();
    out.arena_bytes_max = GetParam();
    out.arena_bytes_per_uid_max = GetParam() + (10 << 20);  // rings and copies have 9 MiB
    return out;
  }
  Result<ContextGrant> attach() {
    AttachTerms terms = small_terms(7);
    terms.arena_bytes = GetParam();
    return registry_.attach(terms);
  }
  void poll() {
    std::vector<Expulsion> none;
    registry_.poll(none);
  }
  /// About a minute at most.
  bool attaches_after_a_while() {
    const test::Deadline deadline;
    while (!deadline.is_over()) {
      poll();
      if (attach().ok()) return true;
      std::this_thread::yield();
    }
    return false;
  }

  FakeWorkers workers_{2};
  ContextRegistry registry_;
  OwnedFd client_;  ///< what the client was given
  OwnedFd hidden_;  ///< holds the file, and does not have it open
  uint64_t arena_offset_ = 0;
};

// Twelve clients that kept what they were given of 1 GiB each, and hung up, took 12 GiB.
TEST_P(LeftContext, CountsAndStaysWhileItsClientHasItOpen) {
  poll();
  const auto refused = attach();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EDQUOT);
  EXPECT_NE(refused.error().text.find("still has open"), std::string::npos) << refused.error().text;
  EXPECT_GE(bytes_with_pages(hidden_.get()), GetParam());
  uint8_t byte = 0;
  EXPECT_EQ(::pread(client_.get(), &byte, 1, static_cast<off_t>(arena_offset_)), 1);
  EXPECT_EQ(byte, 0x5a) << "its client may still read it";
}

TEST_P(LeftContext, IsFreedBeforeItCountsNoMore) {
  client_.reset();
  ASSERT_TRUE(attaches_after_a_while());
  EXPECT_EQ(bytes_with_pages(hidden_.get()), 0u);
}

TEST_P(LeftContext, CountsWhileItsClientMapsIt) {
  void* mapped = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, client_.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  client_.reset();
  poll();
  EXPECT_FALSE(attach().ok());
  ::munmap(mapped, 4096);
  EXPECT_TRUE(attaches_after_a_while());
}

INSTANTIATE_TEST_SUITE_P(FreedAtOnceAndByAThread, LeftContext,
                         ::testing::Values(uint64_t{1} << 20, uint64_t{64} << 20));
static_assert(kMapAtOnceBytesMax < (uint64_t{64} << 20));

/// Attaches a context and leaves it. Returns its memory, which the client keeps open.
OwnedFd leave_context(ContextRegistry& registry, FakeWorkers& workers, const AttachTerms& terms) {
  const auto grant = registry.attach(terms);
  EXPECT_TRUE(grant.ok()) << grant.error().text;
  if (!grant.ok()) return {};
  OwnedFd kept(::fcntl(grant.value().memory_fd, F_DUPFD_CLOEXEC, 0));
  registry.detach(grant.value().index, false);
  workers.answer_detaches();
  std::vector<Expulsion> none;
  registry.poll(none);
  return kept;
}

// Each has a descriptor of the daemon.
TEST(ContextMemoryShare, ContextsThatWereLeftCountAsWell) {
  FakeWorkers workers{2};
  RegistryOptions options = small_options();
  options.contexts_per_uid_max = 1;
  ContextRegistry registry(workers, options);
  OwnedFd kept = leave_context(registry, workers, small_terms(7));
  EXPECT_EQ(registry.held_count(), 0u);
  const auto refused = registry.attach(small_terms(7));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text,
            "uid 7 has 1 contexts, with ended ones whose memory a process still has open, as many "
            "as one uid may have (clients.contexts_per_uid_max)");
  kept.reset();
  EXPECT_TRUE(registry.attach(small_terms(7)).ok());
}

// They had all places of the daemon, which other domains were promised.
TEST(ContextMemoryShare, ContextsThatWereLeftCountForTheirDomain) {
  FakeWorkers workers{2};
  ContextRegistry registry(workers, small_options());
  const worker::DomainRules domain;
  AttachTerms terms = small_terms(7);
  terms.domain = &domain;
  terms.contexts_of_domain_max = 1;
  OwnedFd kept = leave_context(registry, workers, terms);
  EXPECT_FALSE(registry.attach(terms).ok());
  EXPECT_TRUE(registry.attach(small_terms(7)).ok()) << "of another domain";
  kept.reset();
  EXPECT_TRUE(registry.attach(terms).ok());
}

}  // namespace
}  // namespace lyre
