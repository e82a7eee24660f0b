#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/daemon_limits.h"
#include "daemon/control/context_registry.h"
#include "stack/channel/abi.h"
#include "stack/record/stream.h"
#include "tests/support/deadline.h"
#include "tests/unit/daemon/fake_workers.h"

namespace lyre {
namespace {

using Kind = worker::Command::Kind;
using ::testing::ElementsAre;
using ::testing::Pair;

const uint64_t kHandoverPage = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));

RegistryOptions handover_options() {
  RegistryOptions options;
  options.contexts_max = 4;
  options.arena_bytes_max = 8 << 20;
  options.regions.bytes_per_context_max = 1 << 20;
  options.page_bytes = kHandoverPage;
  return options;
}

/// What one process leaves for another: a registry's records, and copies of its descriptors.
struct Left {
  record::Writer records;
  std::vector<OwnedFd> descriptors;

  DescriptorQueue queue() const {
    DescriptorQueue out;
    for (const OwnedFd& fd : descriptors) out.add(OwnedFd(::dup(fd.get())));
    return out;
  }
};

/// A registry with its workers: that of the daemon that goes, or of the one that comes.
struct Side {
  explicit Side(const RegistryOptions& options = handover_options())
      : registry(std::make_unique<ContextRegistry>(workers, options)) {}

  FakeWorkers workers{2};
  std::unique_ptr<ContextRegistry> registry;

  uint32_t attach(uint32_t uid, const worker::DomainRules* domain = nullptr) {
    const auto grant = registry->attach({.identity = {.pid = 42, .uid = uid, .gid = 1},
                                         .abi_version = channel::kAbiVersions.min,
                                         .arena_bytes = 1 << 20,
                                         .label = "rank",
                                         .domain = domain});
    EXPECT_TRUE(grant.ok());
    return grant.value().index;
  }
  uint32_t add_region(uint32_t context, const OwnedFd& file, uint64_t offset) {
    const auto name = registry->regions().add(
        context, {OwnedFd(::dup(file.get())), offset, kHandoverPage, kHandoverPage});
    EXPECT_TRUE(name.ok());
    for (uint32_t i = 0; i < 2; ++i) {
      workers.answers[i].push_back(
          {.kind = worker::Reply::Kind::kRegionAdded, .context = context, .region = name.value()});
    }
    poll();
    return name.value();
  }
  void poll() {
    std::vector<Expulsion> expelled;
    registry->poll(expelled);
    registry->regions().take_answers();
  }
  Left leave() {
    Left left;
    std::vector<int> borrowed;
    registry->write_handover({.secret = {1, 2}}, left.records, borrowed);
    for (const int fd : borrowed) left.descriptors.emplace_back(::dup(fd));
    return left;
  }
  Status take(const Left& left, std::span<const worker::DomainRules> domains = {}) {
    record::Reader in(left.records.bytes());
    RegistryRecord facts;
    EXPECT_TRUE(in.take(record::Kind::kRegistry, kDaemonHandoverVersion,
                        [&](record::FieldReader& fields) { list_registry(fields, facts); }));
    EXPECT_EQ(facts.secret.k1, 2u);
    DescriptorQueue descriptors = left.queue();
    Status taken = registry->take_over(facts, domains, in, descriptors);
    if (taken.ok()) {
      EXPECT_TRUE(in.is_at_end());
      EXPECT_TRUE(descriptors.empty());
    }
    return taken;
  }
};

OwnedFd memory_file() {
  OwnedFd file(::memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), 4 * kHandoverPage), 0);
  const char text[] = "of the client";
  EXPECT_EQ(::pwrite(file.get(), text, sizeof text, kHandoverPage),
            static_cast<ssize_t>(sizeof text));
  return file;
}

TEST(ContextHandover, AContextKeepsItsPlaceItsMemoryAndItsBells) {
  Side old;
  old.attach(7);
  const uint32_t index = old.attach(8);
  const worker::Command was = old.workers.posted[1].back();
  was.memory[was.arena_offset] = 0x5a;
  const Left left = old.leave();
  old.registry.reset();  // the process that goes unmaps it all

  Side fresh;
  ASSERT_TRUE(fresh.take(left).ok());
  EXPECT_EQ(fresh.registry->attached_count(), 2u);
  EXPECT_EQ(fresh.registry->attached_total(), 0u) << "counters begin at zero";
  EXPECT_TRUE(fresh.registry->is_attached(index));
  const auto commands = fresh.registry->handover_commands(1);
  ASSERT_EQ(commands.size(), 2u);
  const worker::Command& is = commands[1];
  EXPECT_EQ(is.kind, Kind::kAttach);
  EXPECT_EQ(is.context, index);
  EXPECT_EQ(is.generation, was.generation);
  EXPECT_EQ(is.memory[is.arena_offset], 0x5a);
  EXPECT_EQ(is.copy_offset, was.copy_offset);
  EXPECT_EQ(reinterpret_cast<uint8_t*>(is.rings) - is.memory,
            reinterpret_cast<uint8_t*>(was.rings) - was.memory);
  EXPECT_EQ(is.uid, 8u);
  EXPECT_STREQ(is.label.data(), "rank");
  EXPECT_FALSE(is.is_lent);
  EXPECT_EQ(fresh.workers.watched[1].size(), 2u);
  EXPECT_TRUE(fresh.workers.posted[0].empty());
  // A name of a context is not used again.
  const auto next = fresh.registry->attach({.identity = {.pid = 1, .uid = 9, .gid = 1}});
  ASSERT_TRUE(next.ok());
  EXPECT_GT(next.value().generation, was.generation);
  EXPECT_NE(next.value().index, index);
}

TEST(ContextHandover, RegisteredMemoryKeepsItsName) {
  const OwnedFd file = memory_file();
  Side old;
  const uint32_t index = old.attach(7);
  old.add_region(index, file, 0);
  const uint32_t name = old.add_region(index, file, kHandoverPage);
  const Left left = old.leave();
  old.registry.reset();

  Side fresh;
  ASSERT_TRUE(fresh.take(left).ok());
  EXPECT_EQ(fresh.registry->regions().count(index), 2u);
  const auto commands = fresh.registry->handover_commands(0);
  ASSERT_EQ(commands.size(), 3u);
  size_t found = 0;
  for (const worker::Command& command : commands) {
    if (command.kind != Kind::kAddRegion || command.region != name) continue;
    ++found;
    EXPECT_STREQ(reinterpret_cast<const char*>(command.memory), "of the client");
  }
  EXPECT_EQ(found, 1u);
  EXPECT_NE(fresh.add_region(index, file, 2 * kHandoverPage), name);
  EXPECT_TRUE(fresh.registry->regions().remove(index, name).ok());
}

std::vector<std::pair<Kind, uint32_t>> kinds_of(const std::vector<worker::Command>& commands) {
  std::vector<std::pair<Kind, uint32_t>> out;
  for (const worker::Command& command : commands) out.emplace_back(command.kind, command.context);
  return out;
}

// Not the memory either of a client that it has let go of, which the worker would refuse: the
// daemon could not be replaced as long as another worker had that client.
TEST(ContextHandover, WhatAWorkerHasLetGoOfIsNotGivenToItsSuccessor) {
  const OwnedFd file = memory_file();
  Side old;
  const uint32_t staying = old.attach(7);
  const uint32_t leaving = old.attach(7);
  const uint32_t name = old.add_region(staying, file, 0);
  old.add_region(leaving, file, kHandoverPage);
  ASSERT_TRUE(old.registry->regions().remove(staying, name).ok());
  old.workers.answers[0].push_back(
      {.kind = worker::Reply::Kind::kRegionRemoved, .context = staying, .region = name});
  old.registry->detach(leaving, false);
  old.workers.answer(1, worker::Reply::Kind::kDetached, leaving);
  old.poll();
  const Left left = old.leave();
  old.registry.reset();

  Side fresh;
  ASSERT_TRUE(fresh.take(left).ok());
  EXPECT_EQ(fresh.registry->attached_count(), 1u);
  EXPECT_EQ(fresh.registry->held_count(), 2u);
  EXPECT_THAT(kinds_of(fresh.registry->handover_commands(0)),
              ElementsAre(Pair(Kind::kAttach, staying), Pair(Kind::kAttach, leaving),
                          Pair(Kind::kAddRegion, leaving)));
  EXPECT_THAT(kinds_of(fresh.registry->handover_commands(1)),
              ElementsAre(Pair(Kind::kAttach, staying), Pair(Kind::kAddRegion, staying)));
  fresh.workers.answer(0, worker::Reply::Kind::kDetached, leaving);
  fresh.workers.answers[1].push_back(
      {.kind = worker::Reply::Kind::kRegionRemoved, .context = staying, .region = name});
  fresh.poll();
  EXPECT_EQ(fresh.registry->held_count(), 1u);
  EXPECT_EQ(fresh.registry->regions().count(staying), 0u);
}

// A client that kept its memory took another share from each daemon that took over.
TEST(ContextHandover, MemoryCountsWhileItsClientHasItOpen) {
  const AttachTerms terms{.identity = {.pid = 42, .uid = 7, .gid = 1}, .arena_bytes = 1 << 20};
  Side old;
  const auto grant = old.registry->attach(terms);
  ASSERT_TRUE(grant.ok()) << grant.error().text;
  OwnedFd kept(::fcntl(grant.value().memory_fd, F_DUPFD_CLOEXEC, 0));
  const Left left = old.leave();
  old.registry.reset();

  RegistryOptions options = handover_options();
  options.contexts_per_uid_max = 1;
  Side fresh(options);
  ASSERT_TRUE(fresh.take(left).ok());
  fresh.registry->detach(grant.value().index, false);
  fresh.workers.answer_detaches();
  fresh.poll();
  EXPECT_FALSE(fresh.registry->attach(terms).ok());
  kept.reset();
  fresh.poll();
  EXPECT_TRUE(fresh.registry->attach(terms).ok());
}

/// Attaches a context and ends it. Returns its memory, which the client keeps open.
OwnedFd leave_memory(Side& side, const AttachTerms& terms) {
  const auto grant = side.registry->attach(terms);
  EXPECT_TRUE(grant.ok()) << grant.error().text;
  if (!grant.ok()) return {};
  OwnedFd kept(::fcntl(grant.value().memory_fd, F_DUPFD_CLOEXEC, 0));
  side.registry->detach(grant.value().index, false);
  side.workers.answer_detaches();
  side.poll();
  return kept;
}

bool attaches_in_the_end(Side& side, const AttachTerms& terms) {
  const test::Deadline deadline;
  while (!deadline.is_over()) {
    side.poll();
    if (side.registry->attach(terms).ok()) return true;
    std::this_thread::yield();
  }
  return false;
}

int attach_error(Side& side, const AttachTerms& terms) {
  const auto grant = side.registry->attach(terms);
  return grant.ok() ? 0 : grant.error().code;
}

/// The daemon that comes after `side`, which ends.
std::unique_ptr<Side> successor_of(std::unique_ptr<Side> side, const RegistryOptions& options,
                                   std::span<const worker::DomainRules> domains = {}) {
  const Left left = side->leave();
  side.reset();
  auto fresh = std::make_unique<Side>(options);
  const Status taken = fresh->take(left, domains);
  EXPECT_TRUE(taken.ok()) << taken.error().text;
  return fresh;
}

// A uid had its whole share again after each upgrade, beside what its ended contexts still held.
TEST(ContextHandover, MemoryOfEndedContextsCountsOverUpgrades) {
  const AttachTerms terms{.identity = {.pid = 42, .uid = 7, .gid = 1}, .arena_bytes = 1 << 20};
  RegistryOptions options = handover_options();
  options.arena_bytes_per_uid_max = 12 << 20;  // a context has 10 MiB
  auto side = std::make_unique<Side>(options);
  OwnedFd kept = leave_memory(*side, terms);
  EXPECT_EQ(attach_error(*side, terms), EDQUOT);
  for (int upgrades = 0; upgrades < 2; ++upgrades) {
    side = successor_of(std::move(side), options);
    EXPECT_EQ(attach_error(*side, terms), EDQUOT);
    EXPECT_EQ(side->registry->held_count(), 0u);
  }
  kept.reset();
  EXPECT_TRUE(attaches_in_the_end(*side, terms));
}

TEST(ContextHandover, MemoryOfEndedContextsCountsForTheirDomain) {
  std::vector<worker::DomainRules> domains(2);
  domains[1].index = 1;
  AttachTerms terms{.identity = {.pid = 42, .uid = 7, .gid = 1},
                    .arena_bytes = 1 << 20,
                    .domain = &domains[1],
                    .contexts_of_domain_max = 1};
  auto side = std::make_unique<Side>();
  OwnedFd kept = leave_memory(*side, terms);
  const Left left = side->leave();
  Side without;
  EXPECT_FALSE(without.take(left).ok()) << "it has no such domain";
  side = successor_of(std::move(side), handover_options(), domains);
  EXPECT_EQ(attach_error(*side, terms), EUSERS);
  terms.domain = &domains[0];
  EXPECT_EQ(attach_error(*side, terms), 0);
  terms.domain = &domains[1];
  kept.reset();
  EXPECT_TRUE(attaches_in_the_end(*side, terms));
}

// The thread that unmapped it for the ports ended with its process.
TEST(ContextHandover, MemoryThatIsBeingUnmappedCountsForTheSuccessor) {
  constexpr uint64_t kUnmappedByAThread = uint64_t{128} << 20;
  static_assert(kUnmappedByAThread > kMapAtOnceArenaBytesMax);
  const AttachTerms terms{.identity = {.pid = 42, .uid = 7, .gid = 1},
                          .arena_bytes = kUnmappedByAThread};
  std::promise<void> end;
  RegistryOptions options = handover_options();
  options.arena_bytes_max = kUnmappedByAThread;
  options.contexts_per_uid_max = 1;
  options.ports.unmap = [ended = end.get_future().share()](const uint8_t*, uint64_t) {
    ended.wait();
  };
  auto side = std::make_unique<Side>(options);
  OwnedFd kept = leave_memory(*side, terms);
  EXPECT_EQ(side->registry->held_count(), 1u) << "it is being unmapped";
  const Left left = side->leave();
  end.set_value();
  side = std::make_unique<Side>(options);
  ASSERT_TRUE(side->take(left).ok());
  EXPECT_EQ(side->registry->held_count(), 0u);
  EXPECT_EQ(attach_error(*side, terms), EUSERS);
  kept.reset();
  EXPECT_TRUE(attaches_in_the_end(*side, terms));
}

TEST(ContextHandover, AClientStaysInItsDomain) {
  std::vector<worker::DomainRules> domains(2);
  domains[1].index = 1;
  Side old;
  old.attach(7, &domains[1]);
  const Left left = old.leave();
  old.registry.reset();
  Side fresh;
  ASSERT_TRUE(fresh.take(left, domains).ok());
  EXPECT_EQ(fresh.registry->attached_count_of(domains[1]), 1u);
  Side without;
  EXPECT_FALSE(without.take(left).ok());
}

// Clients that stay attached for months kept the limits of the daemon that they attached to.
TEST(ContextHandover, AClientHasTheLimitsOfTheNewConfiguration) {
  std::vector<worker::DomainRules> domains(2);
  domains[1].index = 1;
  const OwnedFd file = memory_file();
  Side old;
  const uint32_t index = old.attach(7, &domains[1]);
  old.add_region(index, file, 0);
  const Left left = old.leave();
  old.registry.reset();

  RegistryOptions options = handover_options();
  options.domains = {{}, {.contexts_max = 3, .registered_bytes_max = kHandoverPage}};
  Side fresh(options);
  ASSERT_TRUE(fresh.take(left, domains).ok());
  const auto more = fresh.registry->regions().add(
      index, {OwnedFd(::dup(file.get())), kHandoverPage, kHandoverPage, kHandoverPage});
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, EDQUOT);
  const auto commands = fresh.registry->handover_commands(0);
  ASSERT_FALSE(commands.empty());
  EXPECT_EQ(commands[0].limits.contexts_of_user, 3u);
  EXPECT_EQ(commands[0].limits.registered_bytes_of_user, kHandoverPage);
}

TEST(ContextHandover, MemoryThatIsBeingRegisteredIsSeen) {
  const OwnedFd file = memory_file();
  Side old;
  const uint32_t index = old.attach(7);
  EXPECT_FALSE(old.registry->regions().is_registering());
  ASSERT_TRUE(old.registry->regions()
                  .add(index, {OwnedFd(::dup(file.get())), 0, kHandoverPage, kHandoverPage})
                  .ok());
  EXPECT_TRUE(old.registry->regions().is_registering());
}

TEST(ContextHandover, RecordsThatAreCutOrChangedAreRefused) {
  const OwnedFd file = memory_file();
  Side old;
  old.add_region(old.attach(7), file, 0);
  const OwnedFd kept =
      leave_memory(old, {.identity = {.pid = 42, .uid = 7, .gid = 1}, .arena_bytes = 1 << 20});
  const Left left = old.leave();
  old.registry.reset();
  const std::vector<uint8_t> whole = left.records.bytes();
  size_t refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::vector<uint8_t> bytes = whole;
    bytes[at] ^= 0x81;
    record::Reader in(bytes);
    RegistryRecord facts;
    const bool is_read =
        in.take(record::Kind::kRegistry, kDaemonHandoverVersion,
                [&](record::FieldReader& fields) { list_registry(fields, facts); });
    Side fresh;
    DescriptorQueue descriptors = left.queue();
    facts.client_count = std::min(facts.client_count, 8u);
    facts.region_count = std::min(facts.region_count, 8u);
    if (!is_read || !fresh.registry->take_over(facts, {}, in, descriptors).ok()) ++refused;
  }
  EXPECT_GT(refused, whole.size() / 4);
  Side missing;
  record::Reader in(whole);
  RegistryRecord facts;
  ASSERT_TRUE(in.take(record::Kind::kRegistry, kDaemonHandoverVersion,
                      [&](record::FieldReader& fields) { list_registry(fields, facts); }));
  DescriptorQueue none;
  EXPECT_FALSE(missing.registry->take_over(facts, {}, in, none).ok());
}

}  // namespace
}  // namespace lyre
