#include "daemon/control/context_registry.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/daemon_limits.h"
#include "daemon/base/owned_fd.h"
#include "stack/channel/abi.h"
#include "stack/channel/ring.h"
#include "tests/support/deadline.h"
#include "tests/unit/daemon/fake_workers.h"
#include "tests/unit/daemon/slow_file.h"

namespace lyre {
namespace {

using ::testing::ElementsAre;
using Kind = worker::Command::Kind;
using ReplyKind = worker::Reply::Kind;

RegistryOptions limited_options() {
  RegistryOptions options;
  options.contexts_max = 3;
  options.arena_bytes_max = 8 << 20;
  options.lend = Lend::kUid;
  options.lend_uid = 7;
  return options;
}

AttachTerms terms_of(uint32_t uid) {
  return {.identity = {.pid = 42, .uid = uid, .gid = 1}, .arena_bytes = 1 << 20, .label = "test"};
}

bool is_mapped(const uint8_t* address) {
  unsigned char resident;
  return ::mincore(const_cast<uint8_t*>(address), 4096, &resident) == 0 || errno != ENOMEM;
}

struct ContextRegistryTest : ::testing::Test {
  FakeWorkers workers{2};
  ContextRegistry registry{workers, limited_options()};
  std::vector<Expulsion> expulsions;
  void poll() { registry.poll(expulsions); }
};

// A page of an arena that nobody has touched is first asked for by a worker. The system may refuse
// it by SIGBUS (vm.overcommit_memory = 2), as it does here for the end of a file.
TEST_F(ContextRegistryTest, AnArenaWithoutPagesReadsAsZerosAndItsClientIsExpelled) {
  const auto grant = registry.attach(terms_of(7));
  ASSERT_TRUE(grant.ok()) << grant.error().text;
  const worker::Command& told = workers.posted[0][0];
  uint8_t* arena = told.memory + told.arena_offset;
  const OwnedFd empty(::memfd_create("lyre-test", MFD_CLOEXEC));
  constexpr int kFlags = MAP_SHARED | MAP_FIXED;
  ASSERT_EQ(::mmap(arena, told.arena_bytes, PROT_READ, kFlags, empty.get(), 0), arena);
  EXPECT_EQ(static_cast<const volatile uint8_t*>(arena)[5000], 0);
  poll();
  ASSERT_EQ(expulsions.size(), 1u);
  EXPECT_EQ(expulsions[0].context, grant.value().index);
  registry.detach(grant.value().index, true);
  workers.answer_detaches();
  poll();
  EXPECT_EQ(registry.held_count(), 0u);
}

TEST(ContextMemory, HasThePagesThatWorkersWriteFromTheBeginning) {
  for (const bool has_copies : {false, true}) {
    FakeWorkers workers{2};
    RegistryOptions options = limited_options();
    options.allocates_copy_areas = has_copies;
    ContextRegistry registry(workers, options);
    const auto grant = registry.attach(terms_of(7));
    ASSERT_TRUE(grant.ok()) << grant.error().text;
    const worker::Command& told = workers.posted[0][0];
    struct stat file {};
    ASSERT_EQ(::fstat(grant.value().memory_fd, &file), 0);
    const auto allocated = static_cast<uint64_t>(file.st_blocks) * 512;
    const uint64_t copies = has_copies ? 2 * told.copy_bytes : 0;
    EXPECT_GE(allocated, told.arena_offset + copies);
    EXPECT_LT(allocated, told.arena_offset + copies + told.arena_bytes);
  }
}

TEST_F(ContextRegistryTest, AttachTellsEveryWorkerItsOwnRings) {
  const auto grant = registry.attach(terms_of(7));
  ASSERT_TRUE(grant.ok()) << grant.error().text;
  ASSERT_EQ(workers.posted[0].size(), 1u);
  ASSERT_EQ(workers.posted[1].size(), 1u);
  const worker::Command& first = workers.posted[0][0];
  const worker::Command& second = workers.posted[1][0];
  EXPECT_EQ(first.kind, Kind::kAttach);
  EXPECT_EQ(first.rings + 1, second.rings);
  ASSERT_NE(first.attached_workers, nullptr);
  EXPECT_EQ(first.attached_workers, second.attached_workers) << "they count together";
  EXPECT_EQ(first.attached_workers->load(), 0u);
  EXPECT_EQ(first.copy_offset + first.copy_bytes, second.copy_offset);
  EXPECT_LE(second.copy_offset + second.copy_bytes, second.memory_bytes);
  EXPECT_EQ(first.pid, 42);
  EXPECT_STREQ(first.label.data(), "test");
  EXPECT_TRUE(first.is_lent);
  const auto* header = reinterpret_cast<const channel::ContextHeader*>(first.memory);
  EXPECT_EQ(header->magic, channel::kContextMagic);
  EXPECT_EQ(header->worker_count, 2u);
  EXPECT_EQ(header->generation, grant.value().generation);
  EXPECT_EQ(header->total_bytes, grant.value().context_bytes);
  EXPECT_EQ(header->arena_bytes, 1u << 20);
}

TEST_F(ContextRegistryTest, AnArenaConsistsOfPagesOfTheSystem) {
  constexpr uint64_t kLarge = 65536;
  RegistryOptions options = limited_options();
  options.page_bytes = kLarge;
  options.ports.map = [&](const uint8_t* base, uint64_t bytes, uint64_t page_bytes) {
    EXPECT_EQ(page_bytes, kLarge);
    EXPECT_EQ(bytes, 2 * kLarge);
    static_cast<void>(base);
  };
  ContextRegistry large(workers, options);
  AttachTerms terms = terms_of(7);
  terms.arena_bytes = kLarge + 4096;
  ASSERT_TRUE(large.attach(terms).ok());
  const worker::Command attach = workers.posted[0].back();
  EXPECT_EQ(attach.page_bytes, kLarge);
  EXPECT_EQ(attach.arena_offset % kLarge, 0u);
  EXPECT_EQ(attach.arena_bytes, 2 * kLarge);
}

/// Mapping takes long, and workers shall find it done; what they still read must stay mapped.
TEST_F(ContextRegistryTest, PortsKnowTheArenaBeforeAnyWorkerAndAfterAll) {
  std::vector<std::string> events;
  const uint8_t* arena = nullptr;
  RegistryOptions options = limited_options();
  options.ports.map = [&](const uint8_t* base, uint64_t bytes, uint64_t page_bytes) {
    EXPECT_EQ(bytes, 1u << 20);
    EXPECT_EQ(page_bytes, static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)));
    EXPECT_TRUE(workers.posted[0].empty() && workers.posted[1].empty());
    arena = base;
    events.emplace_back("map");
  };
  options.ports.unmap = [&](const uint8_t* base, uint64_t bytes) {
    EXPECT_EQ(base, arena);
    EXPECT_EQ(bytes, 1u << 20);
    EXPECT_TRUE(is_mapped(base));
    events.emplace_back("unmap");
  };
  {
    ContextRegistry mapping(workers, options);
    const uint32_t index = mapping.attach(terms_of(7)).value().index;
    const worker::Command& told = workers.posted[0][0];
    EXPECT_EQ(arena, told.memory + told.arena_offset);
    mapping.detach(index, false);
    workers.answer(0, ReplyKind::kDetached, index);
    mapping.poll(expulsions);
    EXPECT_THAT(events, ElementsAre("map"));
    workers.answer(1, ReplyKind::kDetached, index);
    mapping.poll(expulsions);
    EXPECT_THAT(events, ElementsAre("map", "unmap"));
    workers.posted[0].clear();
    workers.posted[1].clear();
    ASSERT_TRUE(mapping.attach(terms_of(7)).ok());
  }
  EXPECT_THAT(events, ElementsAre("map", "unmap", "map", "unmap"));
}

constexpr uint64_t kLargeArenaBytes = uint64_t{128} << 20;
static_assert(kLargeArenaBytes > kMapAtOnceArenaBytesMax);

/// Ports that map nothing until the test opens the gate.
class LargeArenaTest : public ::testing::Test {
 protected:
  LargeArenaTest() : registry_(workers_, options()) {}
  ~LargeArenaTest() override { open(); }

  RegistryOptions options() {
    RegistryOptions out = limited_options();
    out.arena_bytes_max = kLargeArenaBytes;
    out.regions.bytes_per_context_max = 1 << 20;
    out.ports.map = [this](const uint8_t*, uint64_t, uint64_t) {
      is_open_.wait(false);
      ++mapped_;
    };
    out.ports.unmap = [this](const uint8_t*, uint64_t) { --mapped_; };
    return out;
  }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }
  Result<ContextGrant> attach() {
    AttachTerms terms = terms_of(7);
    terms.arena_bytes = kLargeArenaBytes;
    return registry_.attach(terms);
  }
  /// Until the thread is done.
  bool poll_until(auto is_done) {
    const test::Deadline deadline;
    while (!is_done() && !deadline.is_over()) {
      registry_.poll(expulsions_);
      std::this_thread::yield();
    }
    return is_done();
  }

  std::atomic<bool> is_open_{false};
  std::atomic<int> mapped_{0};
  FakeWorkers workers_{2};
  std::vector<Expulsion> expulsions_;
  ContextRegistry registry_;
};

// Sixteen such clients at once kept the control thread from the watchdog.
TEST_F(LargeArenaTest, NobodyWaitsUntilItIsMappedAndWorkersKnowItThen) {
  const auto grant = attach();
  ASSERT_TRUE(grant.ok()) << grant.error().text;
  EXPECT_TRUE(registry_.regions().is_registering()) << "an upgrade has to wait";
  const OwnedFd file(::memfd_create("lyre-test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 1 << 20), 0);
  const auto region = registry_.regions().add(
      grant.value().index, {OwnedFd(::dup(file.get())), 0, 1 << 20, system_page_bytes()});
  ASSERT_TRUE(region.ok()) << region.error().text;
  registry_.poll(expulsions_);
  EXPECT_TRUE(workers_.posted[0].empty());
  open();
  ASSERT_TRUE(poll_until([this] { return workers_.posted[1].size() == 2; }));
  for (const auto& posted : workers_.posted) {
    ASSERT_EQ(posted.size(), 2u);
    EXPECT_EQ(posted[0].kind, Kind::kAttach);
    EXPECT_EQ(posted[1].kind, Kind::kAddRegion);
  }
  EXPECT_EQ(mapped_, 2);
}

TEST_F(LargeArenaTest, ItsClientMayLeaveMeanwhile) {
  const auto grant = attach();
  ASSERT_TRUE(grant.ok()) << grant.error().text;
  registry_.detach(grant.value().index, true);
  registry_.poll(expulsions_);
  EXPECT_EQ(registry_.held_count(), 1u) << "it counts until the ports have let go of it";
  open();
  ASSERT_TRUE(poll_until([this] { return registry_.held_count() == 0; }));
  EXPECT_EQ(mapped_, 0);
  EXPECT_TRUE(workers_.posted[0].empty()) << "no worker knew it";
  EXPECT_TRUE(workers_.watched[0].empty());
}

TEST_F(LargeArenaTest, WhatIsUnmappedCountsInAnotherProcessAsLeftMemory) {
  open();
  const auto grant = attach();
  ASSERT_TRUE(grant.ok()) << grant.error().text;
  ASSERT_TRUE(poll_until([this] { return !workers_.posted[1].empty(); }));
  registry_.regions().let_ports_go_first(true);  // the unmapping waits
  registry_.detach(grant.value().index, true);
  workers_.answer_detaches();
  registry_.poll(expulsions_);
  EXPECT_EQ(registry_.held_count(), 1u);
  record::Writer records;
  std::vector<int> descriptors;
  registry_.write_handover({}, records, descriptors);
  EXPECT_EQ(descriptors.size(), 1u) << "its file, and none of a client";
  registry_.regions().let_ports_go_first(false);
  EXPECT_TRUE(poll_until([this] { return registry_.held_count() == 0; }));
}

// Clients that attach without a pause would keep an upgrade from its moment.
TEST_F(LargeArenaTest, IsRefusedWhileAnUpgradeHasNoTime) {
  registry_.refuse_slow_arenas(true);
  const auto refused = attach();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EAGAIN);
  registry_.refuse_slow_arenas(false);
  EXPECT_TRUE(attach().ok());
}

TEST_F(ContextRegistryTest, LendsToItsOwnUidOnly) {
  EXPECT_TRUE(registry.attach(terms_of(7)).value().is_lent_to);
  EXPECT_FALSE(registry.attach(terms_of(8)).value().is_lent_to);
  EXPECT_FALSE(workers.posted[0][1].is_lent);
  EXPECT_GT(workers.posted[0][1].copy_bytes, 0u);
}

TEST_F(ContextRegistryTest, LendsToNobodyWhoIsNotNamed) {
  RegistryOptions options{.contexts_max = 3, .arena_bytes_max = 8 << 20, .lend = Lend::kUid};
  ContextRegistry unnamed(workers, options);
  EXPECT_FALSE(unnamed.attach(terms_of(1000)).value().is_lent_to);
  EXPECT_FALSE(unnamed.attach(terms_of(0)).value().is_lent_to);
}

TEST_F(ContextRegistryTest, ADomainHasAShareOfTheContexts) {
  RegistryOptions options{.contexts_max = 3, .arena_bytes_max = 8 << 20, .lend = Lend::kDomain};
  ContextRegistry shared(workers, options);
  const worker::DomainRules one, other;
  AttachTerms terms = terms_of(7);
  terms.domain = &one;
  terms.contexts_of_domain_max = 1;
  EXPECT_TRUE(shared.attach(terms).value().is_lent_to);
  EXPECT_EQ(workers.posted[1].back().domain, &one);
  const auto refused = shared.attach(terms);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text,
            "the domain has 1 contexts, as many as it may have (domain.contexts_max)");
  terms.domain = &other;
  EXPECT_TRUE(shared.attach(terms).ok());
}

TEST_F(ContextRegistryTest, CountsTheClientsThatAttachedInADomain) {
  ContextRegistry shared(workers, {.contexts_max = 3, .arena_bytes_max = 8 << 20});
  const worker::DomainRules one, other;
  AttachTerms terms = terms_of(7);
  terms.domain = &one;
  ASSERT_TRUE(shared.attach(terms).ok());
  const auto left = shared.attach(terms);
  ASSERT_TRUE(left.ok());
  shared.detach(left.value().index, false);
  EXPECT_EQ(shared.attached_count_of(one), 1u);
  EXPECT_EQ(shared.attached_total(one), 2u);
  EXPECT_EQ(shared.attached_total(other), 0u);
}

TEST_F(ContextRegistryTest, AUidHasAShareOfTheArenas) {
  RegistryOptions options{.contexts_max = 8,
                          .arena_bytes_max = 8 << 20,
                          .arena_bytes_per_uid_max = 20 << 20,
                          .lend = Lend::kDomain};
  ContextRegistry shared(workers, options);
  AttachTerms terms = terms_of(7);
  terms.arena_bytes = 2 << 20;
  const uint32_t index = shared.attach(terms).value().index;
  EXPECT_EQ(workers.posted[0].back().limits.arena_bytes_of_user, 20u << 20);
  const auto refused = shared.attach(terms);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EDQUOT);
  EXPECT_EQ(refused.error().text,
            "the arenas, rings and copies of clients of one uid have at most 20 MiB together "
            "(clients.arena_bytes_per_uid_max)");
  EXPECT_TRUE(shared.attach(terms_of(7)).ok()) << "what is left of the share";
  terms.identity.uid = 8;
  EXPECT_TRUE(shared.attach(terms).ok()) << "another uid";
  worker::DomainRules domain;
  domain.has_account = true;
  terms.identity.uid = 7;
  terms.domain = &domain;
  EXPECT_TRUE(shared.attach(terms).ok()) << "another domain";
  terms.domain = nullptr;
  shared.detach(index, false);
  EXPECT_FALSE(shared.attach(terms).ok()) << "workers still have the memory";
  for (uint32_t i = 0; i < 2; ++i) workers.answer(i, ReplyKind::kDetached, index);
  shared.poll(expulsions);
  EXPECT_TRUE(shared.attach(terms).ok());
}

// Clients that attach and leave in turn had any amount of memory wait for the thread that frees it.
TEST_F(ContextRegistryTest, ArenasThatWaitToBeFreedCountForTheirUid) {
  constexpr uint64_t kFreedByAThread = uint64_t{64} << 20;
  static_assert(kFreedByAThread > kMapAtOnceBytesMax);
  RegistryOptions options{.contexts_max = 8,
                          .arena_bytes_max = kFreedByAThread,
                          .arena_bytes_per_uid_max = 2 * kFreedByAThread,
                          .lend = Lend::kDomain};
  ContextRegistry shared(workers, options);
  SlowFile slow;
  AttachTerms terms = terms_of(7);
  terms.arena_bytes = kFreedByAThread;
  // Ahead of the arena, and another uid's.
  const uint32_t others = shared.attach(terms_of(6)).value().index;
  shared.regions().close_memory(others, slow.take(), kFreedByAThread);
  shared.detach(shared.attach(terms).value().index, false);
  workers.answer_detaches();
  shared.poll(expulsions);
  ASSERT_EQ(shared.held_count(), 1u) << "only that of the other uid";
  const auto refused = shared.attach(terms);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EDQUOT);
  EXPECT_EQ(
      refused.error().text,
      "the arenas, rings and copies of clients of one uid have, with those that are still being "
      "freed, at most 128 MiB together (clients.arena_bytes_per_uid_max)");
  EXPECT_TRUE(shared.attach(terms_of(9)).ok()) << "a third uid";
  slow.let_close();
  const test::Deadline deadline;
  bool is_attached = false;
  while (!is_attached && !deadline.is_over()) {
    is_attached = shared.attach(terms).ok();
    std::this_thread::yield();
  }
  EXPECT_TRUE(is_attached);
}

TEST_F(ContextRegistryTest, MemoryStaysUntilEveryWorkerHasLetGo) {
  const uint32_t index = registry.attach(terms_of(7)).value().index;
  uint8_t* memory = workers.posted[0][0].memory;
  registry.detach(index, false);
  EXPECT_EQ(workers.posted[0].back().kind, Kind::kDetach);
  EXPECT_EQ(registry.attached_count(), 0u);
  poll();
  EXPECT_TRUE(is_mapped(memory));
  workers.answer(1, ReplyKind::kDetached, index);
  poll();
  EXPECT_TRUE(is_mapped(memory));
  EXPECT_EQ(registry.held_count(), 1u);
  workers.answer(0, ReplyKind::kDetached, index);
  poll();
  EXPECT_FALSE(is_mapped(memory));
  EXPECT_EQ(registry.held_count(), 0u);
}

TEST_F(ContextRegistryTest, IndexIsNotUsedAgainWhileAWorkerHoldsIt) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(registry.attach(terms_of(7)).ok());
  const auto refused = registry.attach(terms_of(7));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EUSERS);
  registry.detach(1, false);
  EXPECT_FALSE(registry.attach(terms_of(7)).ok());
  workers.answer_detaches();
  poll();
  const auto again = registry.attach(terms_of(7));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again.value().index, 1u);
  EXPECT_EQ(again.value().generation, 4u);
}

TEST_F(ContextRegistryTest, AUidHasAShareOfTheContexts) {
  RegistryOptions options = limited_options();
  options.contexts_per_uid_max = 2;
  ContextRegistry shared(workers, options);
  ASSERT_TRUE(shared.attach(terms_of(7)).ok());
  ASSERT_TRUE(shared.attach(terms_of(7)).ok());
  const auto refused = shared.attach(terms_of(7));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EUSERS);
  EXPECT_EQ(refused.error().text,
            "uid 7 has 2 contexts, as many as one uid may have (clients.contexts_per_uid_max)");
  // Memory that workers still hold counts: a client that comes and goes gets no more of it.
  shared.detach(0, false);
  EXPECT_FALSE(shared.attach(terms_of(7)).ok());
  EXPECT_TRUE(shared.attach(terms_of(8)).ok());
}

TEST_F(ContextRegistryTest, ArenaHasALimit) {
  AttachTerms terms = terms_of(7);
  terms.arena_bytes = UINT64_MAX;
  const auto refused = registry.attach(terms);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_TRUE(workers.posted[0].empty());
  terms.arena_bytes = 0;
  EXPECT_TRUE(registry.attach(terms).ok());
}

TEST_F(ContextRegistryTest, FullInboxKeepsTheOrder) {
  workers.inbox_room = 0;
  const uint32_t index = registry.attach(terms_of(7)).value().index;
  registry.detach(index, false);
  workers.inbox_room = 256;
  poll();
  ASSERT_EQ(workers.posted[1].size(), 2u);
  EXPECT_EQ(workers.posted[1][0].kind, Kind::kAttach);
  EXPECT_EQ(workers.posted[1][1].kind, Kind::kDetach);
}

TEST_F(ContextRegistryTest, ExpulsionIsReportedWhileAttachedOnly) {
  const uint32_t index = registry.attach(terms_of(7)).value().index;
  workers.answer(0, ReplyKind::kExpelled, index, "bad offset");
  poll();
  ASSERT_EQ(expulsions.size(), 1u);
  EXPECT_EQ(expulsions[0].context, index);
  EXPECT_STREQ(expulsions[0].reason, "bad offset");
  registry.detach(index, false);
  workers.answer(1, ReplyKind::kExpelled, index, "late");
  expulsions.clear();
  poll();
  EXPECT_TRUE(expulsions.empty());
}

TEST_F(ContextRegistryTest, ClientCannotResizeItsMemory) {
  const auto grant = registry.attach(terms_of(7));
  ASSERT_TRUE(grant.ok());
  EXPECT_NE(::ftruncate(grant.value().memory_fd, 4096), 0);
  EXPECT_NE(::ftruncate(grant.value().memory_fd, 1 << 30), 0);
  EXPECT_NE(::fcntl(grant.value().memory_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
}

TEST_F(ContextRegistryTest, BellsAreUnwatchedAtOnce) {
  const auto grant = registry.attach(terms_of(7));
  ASSERT_TRUE(grant.ok());
  ASSERT_EQ(grant.value().worker_rings.size(), 2u);
  EXPECT_EQ(workers.watched[1].count(grant.value().worker_rings[1]), 1u);
  registry.detach(grant.value().index, false);
  EXPECT_TRUE(workers.watched[1].empty());
}

/// A client may do to its descriptors what it likes: the worker's write returns.
TEST_F(ContextRegistryTest, ClientCannotMakeTheWorkersBellBlock) {
  const auto grant = registry.attach(terms_of(7));
  ASSERT_TRUE(grant.ok());
  ASSERT_EQ(::fcntl(grant.value().wake_fd, F_SETFL, 0), 0);
  const int bell = workers.posted[0][0].wake_fd;
  const uint64_t one = 1;
  size_t written = 0;
  while (::write(bell, &one, sizeof one) > 0) ++written;
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_GT(written, 100u);
}

/// While splice() moves bytes of a pipe into a socket that is full, it holds the pipe's lock.
TEST_F(ContextRegistryTest, ClientThatSplicesCannotMakeTheWorkersBellBlock) {
  const auto grant = registry.attach(terms_of(7));
  ASSERT_TRUE(grant.ok());
  ASSERT_EQ(::fcntl(grant.value().wake_fd, F_SETFL, 0), 0);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const OwnedFd full(ends[0]);
  const OwnedFd unread(ends[1]);
  const std::array<char, 4096> block{};
  while (::send(full.get(), block.data(), block.size(), MSG_DONTWAIT) > 0) continue;
  while (::send(full.get(), block.data(), 1, MSG_DONTWAIT) > 0) continue;
  const int bell = workers.posted[0][0].wake_fd;
  const uint64_t one = 1;
  ASSERT_EQ(::write(bell, &one, sizeof one), 8);
  const pid_t client = ::fork();
  ASSERT_GE(client, 0);
  if (client == 0) {
    static_cast<void>(::splice(grant.value().wake_fd, nullptr, full.get(), nullptr, 8, 0));
    ::pause();
  }
  ::usleep(100'000);
  auto rung = std::async(std::launch::async, [&] { return ::write(bell, &one, sizeof one); });
  const bool is_done = rung.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  ::kill(client, SIGKILL);
  ::waitpid(client, nullptr, 0);
  EXPECT_TRUE(is_done);
  EXPECT_EQ(rung.get(), 8);
}

/// Descriptors in its messages would be the daemon's to close.
TEST_F(ContextRegistryTest, ClientCannotSendToTheWorkersBell) {
  const auto grant = registry.attach(terms_of(7));
  ASSERT_TRUE(grant.ok());
  EXPECT_EQ(::send(grant.value().wake_fd, "x", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(ContextRegistryTest, ShutDownWaitsForAllWorkers) {
  registry.shut_down();
  EXPECT_EQ(workers.posted[1].back().kind, Kind::kShutdown);
  workers.answer(0, ReplyKind::kShutDown, 0);
  poll();
  EXPECT_FALSE(registry.is_shut_down());
  workers.answer(1, ReplyKind::kShutDown, 0);
  poll();
  EXPECT_TRUE(registry.is_shut_down());
}

}  // namespace
}  // namespace lyre
