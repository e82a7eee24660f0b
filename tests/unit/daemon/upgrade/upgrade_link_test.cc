#include "daemon/upgrade/upgrade_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/daemon/failing_call.h"

namespace lyre {
namespace {

constexpr Nanos kSoon = millis(50);

struct UpgradeLinkTest : ::testing::Test {
  UpgradeLinkTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    goes = UpgradeLink(OwnedFd(ends[0]));
    comes = UpgradeLink(OwnedFd(ends[1]));
  }
  UpgradeLink goes{OwnedFd()};
  UpgradeLink comes{OwnedFd()};
};

TEST_F(UpgradeLinkTest, RecordsAndMoreDescriptorsThanAMessageCarriesArriveInOrder) {
  record::Writer records;
  const std::vector<uint8_t> text(300'000, 0x5a);
  records.add(record::Kind::kReceived, 1, [&](record::FieldWriter& fields) { fields.bytes(text); });
  std::vector<OwnedFd> pipes;
  std::vector<int> descriptors;
  for (int i = 0; i < 300; ++i) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    pipes.emplace_back(ends[0]);
    const OwnedFd writer(ends[1]);
    const auto mark = static_cast<uint16_t>(i);
    ASSERT_EQ(::write(writer.get(), &mark, sizeof mark), static_cast<ssize_t>(sizeof mark));
    descriptors.push_back(ends[0]);
  }
  std::thread sender([&] { EXPECT_TRUE(goes.send_state(records, descriptors).ok()); });
  auto state = comes.receive_state(seconds(5));
  sender.join();
  ASSERT_TRUE(state.ok()) << state.error().text;
  EXPECT_TRUE(std::ranges::equal(state->records(), records.bytes()));
  for (int i = 0; i < 300; ++i) {
    const OwnedFd taken = state->descriptors.take();
    uint16_t mark = 0xffff;
    ASSERT_EQ(::read(taken.get(), &mark, sizeof mark), static_cast<ssize_t>(sizeof mark));
    EXPECT_EQ(mark, i);
  }
  EXPECT_TRUE(state->descriptors.empty());
}

// Where the system counts pages strictly, the first write to one that it refuses was SIGBUS.
TEST_F(UpgradeLinkTest, RecordsForWhichThereAreNoPagesAreAnError) {
  record::Writer records;
  records.add(record::Kind::kReceived, 1, [](record::FieldWriter& fields) { fields.bytes({}); });
  int code = 0;
  const bool is_called = with_failing_call(SYS_fallocate, ENOSPC, [&] {
    const Status sent = goes.send_state(records, {});
    code = sent.ok() ? 0 : sent.error().code;
  });
  if (!is_called) GTEST_SKIP() << "needs filters of system calls";
  EXPECT_EQ(code, ENOSPC);
}

TEST_F(UpgradeLinkTest, AFailureIsTheReasonOfWhoWaits) {
  comes.send_failure("no memory");
  const auto answer = goes.expect(UpgradeStep::kTakenOver, kSoon);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().text, "no memory");
}

// Linux reports first that what was sent to it is lost.
TEST_F(UpgradeLinkTest, AFailureIsTheReasonOfAProcessThatEndedWithoutReadingAll) {
  ASSERT_TRUE(goes.send(UpgradeStep::kPortsClosed).ok());
  comes.send_failure("no memory");
  comes = UpgradeLink(OwnedFd());
  EXPECT_EQ(goes.expect(UpgradeStep::kTakenOver, kSoon).error().text, "no memory");
  EXPECT_EQ(goes.expect(UpgradeStep::kTakenOver, kSoon).error().code, EPIPE);
}

TEST_F(UpgradeLinkTest, AnotherStepAnEndAndSilenceAreErrors) {
  ASSERT_TRUE(comes.send(UpgradeStep::kPrepared).ok());
  EXPECT_EQ(goes.expect(UpgradeStep::kTakenOver, kSoon).error().code, EPROTO);
  EXPECT_EQ(goes.expect(UpgradeStep::kTakenOver, kSoon).error().code, ETIMEDOUT);
  comes = UpgradeLink(OwnedFd());
  EXPECT_EQ(goes.expect(UpgradeStep::kTakenOver, kSoon).error().code, EPIPE);
  EXPECT_EQ(goes.send(UpgradeStep::kPortsClosed).error().code, EPIPE);
}

TEST_F(UpgradeLinkTest, AStateWithoutItsDescriptorsIsRefused) {
  const uint64_t promised[] = {4096, 3};
  const auto memory = SharedMemory::create("records", 4096, SharedWith::kWriters);
  ASSERT_TRUE(memory.ok());
  const int fd = memory.value().fd();
  const auto* bytes = reinterpret_cast<const uint8_t*>(promised);
  ASSERT_TRUE(goes.send(UpgradeStep::kState, {bytes, sizeof promised}, {&fd, 1}).ok());
  EXPECT_FALSE(comes.receive_state(kSoon).ok());
}

TEST_F(UpgradeLinkTest, AStateInAFileThatCanShrinkIsRefused) {
  const uint64_t promised[] = {4096, 0};
  const OwnedFd file(::memfd_create("records", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  const int fd = file.get();
  const auto* bytes = reinterpret_cast<const uint8_t*>(promised);
  ASSERT_TRUE(goes.send(UpgradeStep::kState, {bytes, sizeof promised}, {&fd, 1}).ok());
  EXPECT_FALSE(comes.receive_state(kSoon).ok());
}

}  // namespace
}  // namespace lyre
