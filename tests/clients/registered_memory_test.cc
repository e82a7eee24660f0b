#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "tests/support/daemon_pair.h"
#include "tests/support/deadline.h"
#include "tests/support/worker_counters.h"

// Registered memory between two real daemons: what is sent without a copy, what falls back to one,
// and what happens when its owner misbehaves.
namespace lyre::test {
namespace {

using channel::WorkerStats;

constexpr size_t kChunkBytes = 512 * 1024;

uint8_t pattern(size_t place, uint8_t seed) {
  return static_cast<uint8_t>(((place * 0x9e3779b97f4a7c15u) >> 29) + seed);
}

struct CloseContext {
  void operator()(lyre_context* context) const { lyre_context_close(context); }
};
using Context = std::unique_ptr<lyre_context, CloseContext>;

/// Memory of one kind.
class Memory {
 public:
  enum class Kind { kMemfd, kUnsealable, kAnonymous, kPrivate };

  Memory(Kind kind, size_t bytes, uint8_t seed = 0) : bytes_(bytes) {
    int flags = kind == Kind::kPrivate ? MAP_PRIVATE : MAP_SHARED;
    if (kind == Kind::kMemfd || kind == Kind::kUnsealable) {
      const unsigned seals = kind == Kind::kMemfd ? MFD_ALLOW_SEALING : 0u;
      fd_ = ::memfd_create("lyre-test", MFD_CLOEXEC | seals);
      EXPECT_EQ(::ftruncate(fd_, static_cast<off_t>(bytes)), 0);
    } else {
      flags |= MAP_ANONYMOUS;
    }
    base_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd_, 0);
    EXPECT_NE(base_, MAP_FAILED);
    if (seed != 0) fill(seed);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    ::munmap(base_, bytes_);
    if (fd_ >= 0) ::close(fd_);
  }
  void fill(uint8_t seed) {
    for (size_t i = 0; i < bytes_; ++i) data()[i] = pattern(i, seed);
  }
  uint8_t* data() const { return static_cast<uint8_t*>(base_); }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_; }

 private:
  size_t bytes_;
  int fd_ = -1;
  void* base_ = nullptr;
};

class RegisteredMemory : public testing::Test {
 protected:
  static void SetUpTestSuite() { daemons_ = new DaemonPair(std::getenv("LYRE_TEST_LYRED")); }
  static void TearDownTestSuite() { delete std::exchange(daemons_, nullptr); }

  void SetUp() override {
    sender_ = open(0);
    receiver_ = open(1);
    lyre_addr any{};
    ASSERT_EQ(lyre_addr_parse((daemons_->address(1) + ":0").c_str(), &any), 0);
    ASSERT_EQ(lyre_listen(receiver_.get(), &any, 16, &listener_), 0) << lyre_last_error();
    ASSERT_EQ(lyre_listener_addr(listener_, &address_), 0);
  }
  static Context open(int host) {
    const std::string& socket = daemons_->socket(host);
    const lyre_options options{.struct_bytes = sizeof options,
                               .socket_path = socket.c_str(),
                               .label = "registered",
                               .arena_bytes = 4 << 20,
                               .patience_ms = 60'000};
    lyre_context* context = nullptr;
    EXPECT_EQ(lyre_context_open(&options, &context), 0) << lyre_last_error();
    return Context(context);
  }
  /// Polls both ends until `is_done`, at most a minute.
  bool run_until(const std::function<bool()>& is_done) {
    const Deadline deadline;
    while (!is_done()) {
      if (deadline.is_over()) return false;
      lyre_poll(sender_.get(), 1);
      lyre_poll(receiver_.get(), 0);
    }
    return true;
  }
  void connect(lyre_session*& from, lyre_session*& to) {
    ASSERT_EQ(lyre_connect(sender_.get(), nullptr, &address_, &from), 0) << lyre_last_error();
    ASSERT_TRUE(run_until(
        [&] { return lyre_state(from) != LYRE_CONNECTING && lyre_accept(listener_, &to) == 0; }));
    ASSERT_EQ(lyre_state(from), LYRE_OPEN);
  }
  lyre_region* register_all(const Memory& memory) {
    lyre_region* region = nullptr;
    EXPECT_EQ(lyre_register(sender_.get(), memory.data(), memory.bytes(), &region), 0)
        << lyre_last_error();
    return region;
  }
  /// Sends [from, from + bytes) of the memory and checks what arrives. False: not all of it did.
  bool transfer(lyre_session* from, lyre_session* to, lyre_region* region, const Memory& memory,
                size_t first, size_t bytes, uint8_t seed) {
    size_t sent = 0;
    size_t received = 0;
    bool is_equal = true;
    std::vector<uint8_t> got(kChunkBytes);
    const bool is_done = run_until([&] {
      while (sent < bytes) {
        const size_t part = std::min(bytes - sent, kChunkBytes);
        const int code = lyre_send_region(from, region, memory.data() + first + sent, part, 0);
        if (code != 0) break;
        sent += part;
      }
      const int64_t count = lyre_recv(to, got.data(), got.size());
      for (int64_t i = 0; i < count; ++i) {
        is_equal &= got[static_cast<size_t>(i)] == pattern(first + received++, seed);
      }
      return received == bytes && lyre_unacked_bytes(from) == 0;
    });
    EXPECT_TRUE(is_equal);
    return is_done && is_equal;
  }

  static DaemonPair* daemons_;
  Context sender_;
  Context receiver_;
  lyre_listener* listener_ = nullptr;
  lyre_addr address_{};
};
DaemonPair* RegisteredMemory::daemons_ = nullptr;

struct Case {
  const char* name;
  Memory::Kind kind;
  bool is_direct;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class EachKind : public RegisteredMemory, public testing::WithParamInterface<Case> {};

TEST_P(EachKind, ArrivesAndItsCopiesAreCounted) {
  constexpr size_t kBytes = 9 << 20;
  const Memory memory(GetParam().kind, kBytes, 5);
  lyre_region* region = register_all(memory);
  ASSERT_NE(region, nullptr);
  const char* why = nullptr;
  const bool is_direct = lyre_region_is_direct(region, &why) == 1;
  if (GetParam().kind == Memory::Kind::kAnonymous && !is_direct && ::geteuid() != 0) {
    GTEST_SKIP() << "the daemon lacks CAP_CHECKPOINT_RESTORE: " << why;
  }
  EXPECT_EQ(is_direct, GetParam().is_direct) << why;
  lyre_session* from = nullptr;
  lyre_session* to = nullptr;
  connect(from, to);
  const WorkerCounters there(daemons_->socket(0));
  const WorkerCounters here(daemons_->socket(1));
  const uint64_t before = there[&WorkerStats::client_copied_tx_bytes];
  const uint64_t worker_before = there[&WorkerStats::copied_tx_bytes];
  const uint64_t again_before = there[&WorkerStats::tcp_payload_retransmitted];
  const uint64_t received_before = here[&WorkerStats::client_copied_rx_bytes];
  // An odd start, so that nothing rests on pages.
  ASSERT_TRUE(transfer(from, to, region, memory, 4'097, kBytes - 5'000, 5));
  EXPECT_EQ(there[&WorkerStats::client_copied_tx_bytes] - before,
            GetParam().is_direct ? 0 : kBytes - 5'000);
  // What TCP sends again is a copy: the first packet may still be read by its driver.
  EXPECT_LE(there[&WorkerStats::copied_tx_bytes] - worker_before,
            there[&WorkerStats::tcp_payload_retransmitted] - again_before);
  const auto received = [&] {
    return here[&WorkerStats::client_copied_rx_bytes] - received_before;
  };
  EXPECT_TRUE(run_until([&] { return received() >= kBytes - 5'000; }));
  EXPECT_EQ(received(), kBytes - 5'000);
  EXPECT_EQ(lyre_deregister(region), 0) << lyre_last_error();
  EXPECT_EQ(lyre_state(from), LYRE_OPEN);
}

INSTANTIATE_TEST_SUITE_P(Of, EachKind,
                         testing::Values(Case{"Memfd", Memory::Kind::kMemfd, true},
                                         Case{"Unsealable", Memory::Kind::kUnsealable, true},
                                         Case{"Anonymous", Memory::Kind::kAnonymous, true},
                                         Case{"Private", Memory::Kind::kPrivate, false}));

TEST_F(RegisteredMemory, PartsOfAMappingCanBeRegistered) {
  const Memory memory(Memory::Kind::kMemfd, 1 << 20, 9);
  lyre_region* region = nullptr;
  ASSERT_EQ(lyre_register(sender_.get(), memory.data() + 70'001, 300'000, &region), 0);
  EXPECT_EQ(lyre_region_is_direct(region, nullptr), 1);
  lyre_session* from = nullptr;
  lyre_session* to = nullptr;
  connect(from, to);
  EXPECT_TRUE(transfer(from, to, region, memory, 70'001, 300'000, 9));
  EXPECT_EQ(lyre_send_region(from, region, memory.data() + 70'000, 10, 0), LYRE_E_INVALID);
  EXPECT_EQ(lyre_send_region(from, region, memory.data() + 370'000, 10, 0), LYRE_E_INVALID);
}

TEST_F(RegisteredMemory, FourThousandRegionsOfNineMebibytes) {
  constexpr size_t kRegions = 4096;
  constexpr size_t kBytes = 9 << 20;
  const Memory memory(Memory::Kind::kMemfd, kRegions * kBytes);  // sparse: only touched pages cost
  std::vector<lyre_region*> regions(kRegions);
  for (size_t i = 0; i < kRegions; ++i) {
    ASSERT_EQ(lyre_register(sender_.get(), memory.data() + i * kBytes, kBytes, &regions[i]), 0)
        << i << ": " << lyre_last_error();
    const char* why = nullptr;
    ASSERT_EQ(lyre_region_is_direct(regions[i], &why), 1) << i << ": " << why;
  }
  lyre_session* from = nullptr;
  lyre_session* to = nullptr;
  connect(from, to);
  for (const size_t i : {size_t{0}, kRegions / 2, kRegions - 1}) {
    for (size_t at = 0; at < 100'000; ++at) {
      memory.data()[i * kBytes + at] = pattern(i * kBytes + at, 3);
    }
    EXPECT_TRUE(transfer(from, to, regions[i], memory, i * kBytes, 100'000, 3));
  }
  for (lyre_region* region : regions) ASSERT_EQ(lyre_deregister(region), 0) << lyre_last_error();
}

TEST_F(RegisteredMemory, ThatIsDeregisteredInFlightResetsItsSessionOnly) {
  const Memory memory(Memory::Kind::kMemfd, 8 << 20, 5);
  const Memory other(Memory::Kind::kMemfd, 1 << 20, 6);
  lyre_region* region = register_all(memory);
  lyre_region* other_region = register_all(other);
  lyre_session* from = nullptr;
  lyre_session* to = nullptr;
  connect(from, to);
  lyre_session* bystander = nullptr;
  lyre_session* bystander_to = nullptr;
  connect(bystander, bystander_to);
  // The peer does not read: the window closes with most of it unacknowledged.
  for (size_t at = 0; at < memory.bytes(); at += kChunkBytes) {
    ASSERT_EQ(lyre_send_region(from, region, memory.data() + at, kChunkBytes, 0), 0);
  }
  lyre_poll(sender_.get(), 10);
  ASSERT_EQ(lyre_deregister(region), 0) << lyre_last_error();
  EXPECT_TRUE(run_until([&] { return lyre_state(from) == LYRE_ENDED; }));
  EXPECT_EQ(lyre_session_error(from), LYRE_E_DEREGISTERED);
  EXPECT_TRUE(transfer(bystander, bystander_to, other_region, other, 0, other.bytes(), 6));
}

// Nobody can ask a closed session for its error. A count of finished sends does not say it.
TEST_F(RegisteredMemory, ThatAClosedSessionLostIsToldByADrain) {
  const Memory memory(Memory::Kind::kMemfd, 8 << 20, 5);
  lyre_region* region = register_all(memory);
  lyre_session* from = nullptr;
  lyre_session* to = nullptr;
  connect(from, to);
  // The peer does not read: the window closes with most of it unacknowledged.
  for (size_t at = 0; at < memory.bytes(); at += kChunkBytes) {
    ASSERT_EQ(lyre_send_region(from, region, memory.data() + at, kChunkBytes, 0), 0);
  }
  lyre_close(from);
  EXPECT_EQ(lyre_drain(sender_.get(), 10), LYRE_E_AGAIN);
  lyre_abort(to);
  EXPECT_EQ(lyre_drain(sender_.get(), 60'000), LYRE_E_RESET) << lyre_last_error();
  EXPECT_EQ(lyre_drain(sender_.get(), 60'000), 0) << lyre_last_error();
  EXPECT_EQ(lyre_deregister(region), 0) << lyre_last_error();
}

// The daemon lets sessions of a client that hung up send for a second more.
TEST_F(RegisteredMemory, ThatIsUnsentWhenItsContextIsClosedMayChangeAtOnce) {
  for (const bool is_session_closed : {false, true}) {
    const Memory memory(Memory::Kind::kMemfd, 8 << 20, 5);
    lyre_region* region = register_all(memory);
    ASSERT_EQ(lyre_region_is_direct(region, nullptr), 1);
    lyre_session* from = nullptr;
    lyre_session* to = nullptr;
    connect(from, to);
    // The peer does not read: the window closes with most of it unsent.
    for (size_t at = 0; at < memory.bytes(); at += kChunkBytes) {
      ASSERT_EQ(lyre_send_region(from, region, memory.data() + at, kChunkBytes, 0), 0);
    }
    lyre_poll(sender_.get(), 10);
    if (is_session_closed) lyre_close(from);
    sender_.reset();
    std::memset(memory.data(), 0, memory.bytes());
    std::vector<uint8_t> got(kChunkBytes);
    size_t received = 0;
    size_t wrong = 0;
    int64_t count = 0;
    EXPECT_TRUE(run_until([&] {
      count = lyre_recv(to, got.data(), got.size());
      for (int64_t i = 0; i < count; ++i) {
        wrong += got[static_cast<size_t>(i)] != pattern(received++, 5) ? 1 : 0;
      }
      return count <= 0 && count != LYRE_E_AGAIN;
    }));
    EXPECT_EQ(count, LYRE_E_RESET);
    EXPECT_LT(received, memory.bytes());
    EXPECT_EQ(wrong, 0u) << "of " << received;
    lyre_close(to);
    sender_ = open(0);
  }
}

// The owner takes the pages away under the daemon: the daemon lives, the owner is thrown out, and
// a transfer beside it does not notice.
TEST_F(RegisteredMemory, WhosePagesVanishCostsItsOwnerTheContext) {
  const Memory honest(Memory::Kind::kMemfd, 2 << 20, 8);
  lyre_region* honest_region = register_all(honest);
  lyre_session* honest_from = nullptr;
  lyre_session* honest_to = nullptr;
  connect(honest_from, honest_to);

  Context thief = open(0);
  const Memory memory(Memory::Kind::kUnsealable, 4 << 20, 5);
  lyre_region* region = nullptr;
  ASSERT_EQ(lyre_register(thief.get(), memory.data(), memory.bytes(), &region), 0);
  ASSERT_EQ(lyre_region_is_direct(region, nullptr), 1);
  lyre_session* from = nullptr;
  ASSERT_EQ(lyre_connect(thief.get(), nullptr, &address_, &from), 0);
  ASSERT_TRUE(run_until([&] {
    lyre_poll(thief.get(), 0);
    return lyre_state(from) == LYRE_OPEN;
  }));
  ASSERT_EQ(::ftruncate(memory.fd(), 0), 0);
  ASSERT_EQ(lyre_send_region(from, region, memory.data(), memory.bytes(), 0), 0);
  int code = 0;
  EXPECT_TRUE(run_until([&] {
    code = lyre_poll(thief.get(), 0);
    return code < 0;
  }));
  EXPECT_EQ(code, LYRE_E_EXPELLED) << lyre_last_error();
  EXPECT_TRUE(daemons_->is_running(0));
  EXPECT_TRUE(transfer(honest_from, honest_to, honest_region, honest, 0, honest.bytes(), 8));
}

/// A child that attaches, registers memory and sends it. It tells `told` when it has.
pid_t start_sender(const std::string& socket, const lyre_addr& address, int told) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  // When the test is killed, so is the child.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(8);
  const lyre_options options{.struct_bytes = sizeof options,
                             .socket_path = socket.c_str(),
                             .label = "killed",
                             .arena_bytes = 4 << 20,
                             .patience_ms = 60'000};
  lyre_context* context = nullptr;
  lyre_session* session = nullptr;
  if (lyre_context_open(&options, &context) != 0) ::_exit(1);
  const Memory memory(Memory::Kind::kMemfd, 4 << 20, 5);
  lyre_region* region = nullptr;
  // Memory beyond the user's share is not direct: that of the child before may not be back yet.
  do {
    if (region != nullptr && lyre_deregister(region) != 0) ::_exit(2);
    if (lyre_register(context, memory.data(), memory.bytes(), &region) != 0) ::_exit(3);
  } while (lyre_region_is_direct(region, nullptr) != 1);
  if (lyre_connect(context, nullptr, &address, &session) != 0) ::_exit(4);
  while (lyre_state(session) == LYRE_CONNECTING) lyre_poll(context, 10);
  if (lyre_send_region(session, region, memory.data(), memory.bytes(), 0) != 0) ::_exit(5);
  if (::write(told, "y", 1) != 1) ::_exit(6);
  while (lyre_poll(context, 1000) >= 0) {
  }
  ::_exit(7);
}

// The user may have one region: a second child gets it only when the first one's is given back.
TEST(RegisteredMemoryOfAClient, ThatIsKilledIsGivenBack) {
  DaemonPair daemons(std::getenv("LYRE_TEST_LYRED"), "[clients]\nregions_per_uid_max = 1\n");
  const lyre_options options{.struct_bytes = sizeof options,
                             .socket_path = daemons.socket(1).c_str(),
                             .label = "receiver",
                             .arena_bytes = 0,
                             .patience_ms = 60'000};
  lyre_context* opened = nullptr;
  ASSERT_EQ(lyre_context_open(&options, &opened), 0) << lyre_last_error();
  const Context receiver(opened);
  lyre_addr address{};
  ASSERT_EQ(lyre_addr_parse((daemons.address(1) + ":0").c_str(), &address), 0);
  lyre_listener* listener = nullptr;
  ASSERT_EQ(lyre_listen(receiver.get(), &address, 16, &listener), 0) << lyre_last_error();
  ASSERT_EQ(lyre_listener_addr(listener, &address), 0);
  for (int round = 0; round < 5; ++round) {
    int told[2];
    ASSERT_EQ(::pipe2(told, O_CLOEXEC), 0);
    const pid_t child = start_sender(daemons.socket(0), address, told[1]);
    ASSERT_GT(child, 0);
    ::close(told[1]);
    pollfd news{told[0], POLLIN, 0};
    const Deadline deadline;
    while (::poll(&news, 1, 0) == 0 && !deadline.is_over()) lyre_poll(receiver.get(), 10);
    char answer = 0;
    EXPECT_EQ((news.revents & POLLIN) != 0 ? ::read(told[0], &answer, 1) : 0, 1)
        << "round " << round;
    ::close(told[0]);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "exit status " << WEXITSTATUS(status);
  }
  EXPECT_TRUE(daemons.is_running(0));
}

}  // namespace
}  // namespace lyre::test
