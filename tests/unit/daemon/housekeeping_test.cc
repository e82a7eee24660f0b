#include "daemon/housekeeping.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/daemon_limits.h"
#include "tests/unit/daemon/captured_log.h"
#include "tests/unit/daemon/daemon_fixture.h"
#include "tests/unit/daemon/service_manager.h"

namespace lyre {
namespace {

/// How far the clock of a test went on while its machine was paused.
Nanos clock_jump;

Nanos jumping_clock() { return monotonic_now() + clock_jump; }

/// The thread of this process's only worker.
pid_t worker_thread() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(entry.path() / "comm") >> name;
    if (name.starts_with("lyre-core")) return std::stoi(entry.path().filename());
  }
  return -1;
}

/// A daemon that serves, with simulated ports.
class HousekeepingTest : public DaemonTest {
 protected:
  HousekeepingTest() : reply_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), config_(config()) {}

  void SetUp() override {
    auto parts = Assembly::make(config_, std::make_unique<SimBackend>(states_),
                                {.io = io_, .mappings = mappings_}, reply_.get());
    ASSERT_TRUE(parts.ok()) << parts.error().text;
    parts_ = std::move(*parts);
    ASSERT_TRUE(parts_->open().ok());
    ASSERT_TRUE(parts_->start().ok());
    housekeeping_ = std::make_unique<Housekeeping>(io_, *parts_, notifier_);
    housekeeping_->begin();
  }
  void TearDown() override {
    housekeeping_.reset();
    parts_.reset();
  }

  OwnedFd reply_;
  const Config config_;
  Notifier notifier_;
  std::unique_ptr<Assembly> parts_;
  std::unique_ptr<Housekeeping> housekeeping_;
};

TEST_F(HousekeepingTest, ShowsHowManyClientsAreAttached) {
  channel::StatsHeader& header = parts_->stats().header();
  const auto grant = parts_->registry().attach({.identity = {.pid = 1, .uid = 7, .gid = 7}});
  ASSERT_TRUE(grant.ok()) << grant.error().text;
  EXPECT_TRUE(run_until([&] { return header.clients.get() == 1; }));
  parts_->registry().detach(grant.value().index, false);
  EXPECT_TRUE(run_until([&] { return header.clients.get() == 0; }));
  EXPECT_EQ(header.clients_total.get(), 1u);
}

TEST_F(HousekeepingTest, RestartsAPortWhoseDriverAsksForIt) {
  states_[0]->needs_restart = true;
  EXPECT_TRUE(run_until([&] { return states_[0]->steps == "src"; }));
  // Workers wait for the first and the last step, and go on afterwards.
  const uint64_t turns = parts_->threads().turns(0);
  EXPECT_TRUE(run_until([&] { return parts_->threads().turns(0) > turns; }));
}

TEST_F(HousekeepingTest, WorkersGoOnWhileAPortCannotBeRestarted) {
  states_[0]->can_restart = false;
  states_[0]->needs_restart = true;
  EXPECT_TRUE(run_until([&] { return states_[0]->restarts > 2; }));
  EXPECT_EQ(states_[0]->steps.substr(0, 4), "srrr");
  const uint64_t turns = parts_->threads().turns(0);
  EXPECT_TRUE(run_until([&] { return parts_->threads().turns(0) > turns; }));
}

// A client that registers and deregisters without a pause would otherwise keep the port closed.
TEST_F(HousekeepingTest, APortThatWaitsForMemoryHasItsTurnBeforeClients) {
  states_[0]->waits_for_memory = true;
  states_[0]->can_restart = false;
  states_[0]->needs_restart = true;
  ASSERT_TRUE(run_until([&] { return states_[0]->restarts > 0; }));
  RegionRegistry& regions = parts_->registry().regions();
  const auto grant = parts_->registry().attach({.identity = {.pid = 1, .uid = 7, .gid = 7}});
  ASSERT_TRUE(grant.ok()) << grant.error().text;
  OwnedFd file(::memfd_create("lyre-test", MFD_CLOEXEC));
  constexpr uint64_t kBytes = 2 * kMapAtOnceBytesMax;
  ASSERT_EQ(::ftruncate(file.get(), kBytes), 0);
  ASSERT_TRUE(
      regions.add(grant.value().index, {std::move(file), 0, kBytes, system_page_bytes()}).ok());
  std::vector<Expulsion> none;
  const auto is_registered = [&] {
    parts_->registry().poll(none);
    return !regions.is_registering();
  };
  const int restarts = states_[0]->restarts;
  ASSERT_TRUE(run_until([&] { return states_[0]->restarts > restarts + 1; }));
  EXPECT_FALSE(is_registered());
  states_[0]->can_restart = true;
  EXPECT_TRUE(run_until(is_registered));
  EXPECT_EQ(states_[0]->steps.back(), 'c');
}

TEST_F(HousekeepingTest, WarnsOfAnAddressThatAnotherMachineClaims) {
  CapturedLog log;
  auto& conflicts = parts_->stats().worker(0).drops[static_cast<size_t>(Drop::kArpConflict)];
  const channel::ClaimView claim{.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1},
                                 .mac = {2, 0, 0, 0, 0, 9},
                                 .reserved = {},
                                 .seen_unix_ns = 1};
  parts_->stats().queues(0)[0].claim.write(&claim);
  conflicts.set(1);
  EXPECT_TRUE(
      run_until([&] { return log.has("another machine, 02:00:00:00:00:09, claims 10.9.0.1"); }));
}

TEST_F(HousekeepingTest, TellsOnceOfAKernelThatLeavesChecksumsOut) {
  CapturedLog log;
  std::strcpy(parts_->stats().port(0).device, "net_af_packet0,iface=veth0");
  auto& wrong = parts_->stats().worker(0).drops[static_cast<size_t>(Drop::kTcpBadChecksum)];
  wrong.set(1);
  EXPECT_TRUE(run_until([&] { return log.has("segments with a wrong TCP checksum"); }));
  wrong.set(2);
  auto& clients = parts_->stats().header().clients;
  clients.set(7);
  ASSERT_TRUE(run_until([&] { return clients.get() == 0; })) << "it has looked again";
  EXPECT_EQ(log.count("other end of veth0 is a kernel's"), 1u) << log.text();
}

TEST_F(HousekeepingTest, SaysNothingOfWrongChecksumsThatCameThroughANic) {
  CapturedLog log;
  parts_->stats().worker(0).drops[static_cast<size_t>(Drop::kTcpBadChecksum)].set(1);
  auto& clients = parts_->stats().header().clients;
  clients.set(7);
  ASSERT_TRUE(run_until([&] { return clients.get() == 0; })) << "it has looked";
  EXPECT_FALSE(log.has("checksum"));
}

TEST_F(HousekeepingTest, SeesAWorkerThatMakesNoTurns) {
  EXPECT_FALSE(housekeeping_->is_worker_hanging());
  ASSERT_TRUE(parts_->threads().pause());
  EXPECT_TRUE(run_until([&] { return housekeeping_->is_worker_hanging(); }));
  parts_->threads().resume();
  EXPECT_TRUE(run_until([&] { return !housekeeping_->is_worker_hanging(); }));
}

// So does a kernel before 6.2 whenever the cpuset of the daemon's cgroup changes.
TEST_F(HousekeepingTest, PinsAWorkerAgainWhoseAffinityWasChanged) {
  cpu_set_t all, own;
  CPU_ZERO(&all);
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "there is one core only";
  CPU_ZERO(&own);
  CPU_SET(config_.cores[0], &own);
  const pid_t worker = worker_thread();
  const auto is_pinned = [&] {
    cpu_set_t now;
    CPU_ZERO(&now);
    return ::sched_getaffinity(worker, sizeof now, &now) == 0 && CPU_EQUAL(&now, &own) != 0;
  };
  ASSERT_TRUE(is_pinned());
  ASSERT_EQ(::sched_setaffinity(worker, sizeof all, &all), 0);
  EXPECT_TRUE(run_until(is_pinned));
  EXPECT_EQ(parts_->stats().worker(0).is_core_lost.get(), 0u);
}

// Its watchdog compares with a clock that went on. Workers have made no turn yet.
TEST_F(HousekeepingTest, AfterAPauseTheServiceManagerHearsOfTheDaemonBeforeAnythingElseIsDone) {
  ServiceManager manager(directory_ + "/notify");
  housekeeping_.reset();
  notifier_ = Notifier();
  clock_jump = Nanos();
  housekeeping_ = std::make_unique<Housekeeping>(io_, *parts_, notifier_, jumping_clock);
  housekeeping_->begin();
  ASSERT_TRUE(parts_->threads().pause());
  EXPECT_TRUE(run_until([&] { return housekeeping_->is_worker_hanging(); }));
  const int before = manager.signs_of_life();
  int at_look = -1;
  states_[0]->on_look = [&] {
    if (at_look >= 0) return;
    for (int i = 0; i < 1000 && manager.signs_of_life() == before; ++i) ::usleep(1000);
    at_look = manager.signs_of_life();
  };
  clock_jump = seconds(70);
  EXPECT_TRUE(run_until([&] { return at_look >= 0; }));
  EXPECT_GT(at_look, before);
  states_[0]->on_look = nullptr;
  parts_->threads().resume();
}

}  // namespace
}  // namespace lyre
