#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/hostile/honest_pair.h"
#include "tests/hostile/raw_client.h"
#include "tests/hostile/sparse_memory.h"
#include "tests/support/deadline.h"
#include "tests/support/worker_counters.h"

// Clients that take all that the rules of the channel allow, with correct clients beside them.
namespace lyre::test {
namespace {

using namespace std::chrono_literals;

constexpr uint16_t kGreedyPort = 6000;
constexpr size_t kGreedyArenaBytes = 64 * kMiB;
constexpr int kDeafBacklog = 1000;

template <typename IsDone>
bool comes_true(IsDone is_done) {
  const Deadline deadline;
  while (!is_done()) {
    if (deadline.is_over()) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// Sessions of one client of host 0 with one client of host 1.
class GreedySessions {
 public:
  GreedySessions(DaemonPair& daemons, size_t count)
      : near(attach(daemons.socket(0), "greedy", kGreedyArenaBytes)),
        far(attach(daemons.socket(1), "greedy")) {
    lyre_addr address{};
    lyre_addr_parse((daemons.address(1) + ":" + std::to_string(kGreedyPort)).c_str(), &address);
    lyre_listener* listener = nullptr;
    EXPECT_EQ(lyre_listen(far.get(), &address, static_cast<int>(count), &listener), 0);
    senders.resize(count);
    for (lyre_session*& one : senders) {
      EXPECT_EQ(lyre_connect(near.get(), nullptr, &address, &one), 0) << lyre_last_error();
    }
    EXPECT_TRUE(comes_true([&] {
      lyre_poll(near.get(), 0);
      lyre_poll(far.get(), 0);
      lyre_session* one = nullptr;
      while (lyre_accept(listener, &one) == 0) readers.push_back(one);
      return readers.size() == count;
    })) << readers.size();
    received.resize(count);
  }

  /// Gives each session as much as it takes, and reads all that came.
  void pump() {
    lyre_poll(near.get(), 0);
    lyre_poll(far.get(), 0);
    for (lyre_session* one : senders) lyre_send(one, block_.data(), block_.size());
    for (size_t i = 0; i < readers.size(); ++i) {
      const int64_t came = lyre_recv(readers[i], scratch_.data(), scratch_.size());
      if (came > 0) received[i] += static_cast<uint64_t>(came);
    }
  }

  Context near;
  Context far;
  std::vector<lyre_session*> senders;
  std::vector<lyre_session*> readers;
  std::vector<uint64_t> received;

 private:
  std::vector<uint8_t> block_ = std::vector<uint8_t>(16 << 10);
  std::vector<uint8_t> scratch_ = std::vector<uint8_t>(64 << 10);
};

/// Accepts, and reads nothing.
class DeafServer {
 public:
  DeafServer(const std::string& socket, const lyre_addr& address)
      : context_(attach(socket, "deaf")) {
    EXPECT_EQ(lyre_listen(context_.get(), &address, kDeafBacklog, &listener_), 0)
        << lyre_last_error();
  }
  void close_ended() {
    lyre_poll(context_.get(), 0);
    lyre_session* one = nullptr;
    while (lyre_accept(listener_, &one) == 0) sessions_.push_back(one);
    std::erase_if(sessions_, [](lyre_session* session) {
      if (lyre_state(session) != LYRE_ENDED) return false;
      lyre_close(session);
      return true;
    });
  }

 private:
  Context context_;
  lyre_listener* listener_ = nullptr;
  std::vector<lyre_session*> sessions_;
};

class HostileGreed : public testing::Test {
 protected:
  void start(const std::string& toml = "") {
    daemons_ = std::make_unique<DaemonPair>(std::getenv("LYRE_TEST_LYRED"), toml);
    honest_ = std::make_unique<HonestPair>(*daemons_);
    const std::string target = daemons_->address(1) + ":" + std::to_string(kGreedyPort);
    ASSERT_EQ(lyre_addr_parse(target.c_str(), &target_), 0);
  }
  void TearDown() override {
    for (const int host : {0, 1}) {
      EXPECT_TRUE(daemons_->is_running(host)) << daemons_->log_tail(host);
    }
  }

  uint64_t sessions_of(int host) const {
    const WorkerCounters counters(daemons_->socket(host));
    return counters[&channel::WorkerStats::sessions_open];
  }

  std::unique_ptr<DaemonPair> daemons_;
  std::unique_ptr<HonestPair> honest_;
  lyre_addr target_{};  ///< of a server at host 1
};

// Round robin by session left the other client 0.077 of 1.68 Gb/s.
TEST_F(HostileGreed, SixtyFourBusySessionsLeaveTheLineToOthers) {
  constexpr size_t kSessions = 64;
  constexpr int kTransfers = 16;
  start();
  GreedySessions greedy(*daemons_, kSessions);
  honest_->beside = [&] { greedy.pump(); };
  honest_->expect_transfer();
  const std::vector<uint64_t> before = greedy.received;
  for (int i = 0; i < kTransfers && !HasFailure(); ++i) honest_->expect_transfer();
  uint64_t sum = 0;
  for (size_t i = 0; i < kSessions; ++i) {
    EXPECT_GT(greedy.received[i], before[i]) << "session " << i << " was no competitor";
    sum += greedy.received[i] - before[i];
  }
  std::printf("%d MiB each way beside %llu MiB of %zu sessions\n", kTransfers,
              static_cast<unsigned long long>(sum / kMiB), kSessions);
}

// A walk over 2 040 sessions with news made a ping-pong of another client 12 times slower.
TEST_F(HostileGreed, ThousandsOfSessionsWithNewsLeaveTurnsToOthers) {
  constexpr size_t kSessions = 2040;
  constexpr uint64_t kUntoldInATurn = 32;
  start();
  RawClient deaf(daemons_->socket(1));
  ASSERT_TRUE(deaf.listen(kGreedyPort));
  const Context talker = attach(daemons_->socket(0), "greedy", kGreedyArenaBytes);
  std::vector<lyre_session*> sessions;
  size_t accepted = 0;
  ASSERT_TRUE(comes_true([&] {
    lyre_session* one = nullptr;
    while (sessions.size() < kSessions &&
           lyre_connect(talker.get(), nullptr, &target_, &one) == 0) {
      sessions.push_back(one);
    }
    lyre_poll(talker.get(), 0);
    accepted += deaf.take_all();
    return accepted == kSessions;
  })) << accepted;
  // Nothing of this is read: the ring stays full, and the other sessions have news for ever.
  for (int byte = 0; byte < 2; ++byte) {
    for (lyre_session* one : sessions) {
      ASSERT_TRUE(comes_true([&] {
        lyre_poll(talker.get(), 0);
        return lyre_send(one, "x", 1) == 1;
      }));
    }
  }
  const WorkerCounters counters(daemons_->socket(1));
  const uint64_t turns_before = counters[&channel::WorkerStats::polls];
  const uint64_t before = counters[&channel::WorkerStats::completion_ring_full];
  honest_->expect_ping_pong(1000);
  honest_->expect_transfer();
  const uint64_t untold = counters[&channel::WorkerStats::completion_ring_full] - before;
  const uint64_t turns = counters[&channel::WorkerStats::polls] - turns_before + 1;
  EXPECT_GT(untold, 0u) << "the ring was not full";
  EXPECT_LE(untold, kUntoldInATurn * turns);
  EXPECT_GE(deaf.take_all(), size_t{channel::kCompletionEntries});
}

TEST_F(HostileGreed, AClientThatSubmitsWithoutEndLeavesTurnsToOthers) {
  constexpr uint64_t kSubmissions = 1'000'000;
  constexpr uint64_t kInATurn = 64;  // of a client; there are two
  start();
  RawClient busy(daemons_->socket(0));
  ASSERT_TRUE(busy.listen(kGreedyPort));
  const RawClient::Ends ends = busy.connect_to_itself({IpAddress::v4(0x0a4d0001), kGreedyPort});
  ASSERT_NE(ends.near.generation, 0u);
  channel::Submission entry{.op = channel::Op::kSetOption, .session = ends.near};
  entry.body.option = {.name = channel::SessionOption::kNodelay, .value = 1};
  const WorkerCounters counters(daemons_->socket(0));
  const uint64_t turns_before = counters[&channel::WorkerStats::polls];
  const uint64_t before = counters[&channel::WorkerStats::submissions];
  std::atomic<bool> is_over = false;
  std::thread greedy([&] {
    while (!is_over) busy.fill(entry);
  });
  while (counters[&channel::WorkerStats::submissions] < kSubmissions && !HasFailure()) {
    honest_->expect_transfer();
  }
  const uint64_t taken = counters[&channel::WorkerStats::submissions] - before;
  const uint64_t turns = counters[&channel::WorkerStats::polls] - turns_before + 1;
  EXPECT_LE(taken, 2 * kInATurn * turns);
  is_over = true;
  greedy.join();
}

// What clients leave behind that die with sends queued, whose peers do not read: their sessions
// held connections and sends for as long as the peers answered probes.
TEST_F(HostileGreed, OrphansOfClientsThatDieAgainAndAgainGiveWay) {
  constexpr int kLives = 14;
  constexpr int kSessions = 16;
  constexpr int kSends = 8;
  start(
      "connections_max = 256\nreceive_buffer_bytes = 65536\n"
      "receive_buffer_start_bytes = 65536\n");
  DeafServer deaf(daemons_->socket(1), target_);
  honest_->beside = [&] { deaf.close_ended(); };
  for (int life = 0; life < kLives && !HasFailure(); ++life) {
    RawClient doomed(daemons_->socket(0));
    for (int i = 0; i < kSessions; ++i) doomed.connect({IpAddress::v4(0x0a4d0002), kGreedyPort});
    for (int opened = 0; opened < kSessions;) {
      deaf.close_ended();
      const channel::Completion entry = doomed.next();
      ASSERT_NE(entry.event, channel::Event::kNone) << "life " << life;
      ASSERT_NE(entry.event, channel::Event::kConnectFailed) << "life " << life;
      if (entry.event != channel::Event::kConnected) continue;
      ++opened;
      for (int i = 0; i < kSends; ++i) doomed.send(entry.session, 64 << 10);
    }
    honest_->expect_open();
    honest_->expect_transfer();
  }
  EXPECT_TRUE(comes_true([&] {
    deaf.close_ended();
    return sessions_of(0) == 1;
  })) << sessions_of(0);
}

// Each of them is mapped page by page, and taken back, while others transfer.
TEST_F(HostileGreed, LargeRegistrationsDoNotStopOthers) {
  constexpr int kRounds = 20;
  start();
  const SparseMemory memory(256 * kMiB);
  std::atomic<int> rounds = 0;
  std::thread greedy([&] {
    const Context context = attach(daemons_->socket(0), "greedy");
    for (; rounds < kRounds; ++rounds) {
      lyre_region* region = nullptr;
      EXPECT_EQ(lyre_register(context.get(), memory.data(), memory.bytes(), &region), 0);
      EXPECT_TRUE(lyre_region_is_direct(region, nullptr));
      EXPECT_EQ(lyre_deregister(region), 0) << lyre_last_error();
    }
  });
  do honest_->expect_transfer();
  while (rounds < kRounds && !HasFailure());
  greedy.join();
}

// The daemon sends from memory that its client takes away.
TEST_F(HostileGreed, RegionsThatAreRemovedWhileTheyAreSentHurtTheirOwnerOnly) {
  constexpr int kRounds = 50;
  start();
  const SparseMemory memory(4 * kMiB);
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    GreedySessions own(*daemons_, 1);
    lyre_region* region = nullptr;
    ASSERT_EQ(lyre_register(own.near.get(), memory.data(), memory.bytes(), &region), 0);
    ASSERT_TRUE(lyre_region_is_direct(region, nullptr));
    ASSERT_EQ(lyre_send_region(own.senders[0], region, memory.data(), memory.bytes(), 0), 0);
    EXPECT_EQ(lyre_deregister(region), 0) << lyre_last_error();
    EXPECT_TRUE(comes_true([&] {
      lyre_poll(own.near.get(), 0);
      return lyre_state(own.senders[0]) == LYRE_ENDED;
    }));
    EXPECT_EQ(lyre_session_error(own.senders[0]), LYRE_E_DEREGISTERED);
    if (round % 10 == 0) honest_->expect_transfer();
  }
  honest_->expect_transfer();
}

}  // namespace
}  // namespace lyre::test
