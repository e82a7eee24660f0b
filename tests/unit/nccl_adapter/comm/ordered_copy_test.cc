#include "nccl_adapter/comm/ordered_copy.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

namespace lyre::nccl_adapter {
namespace {

constexpr size_t kLineBytes = 128;  // of NCCL's LL128: 120 bytes of data and the flag
constexpr size_t kWordBytes = 8;    // of its LL: data and flag, four bytes each
constexpr size_t kAreaBytes = 23 * kLineBytes;
constexpr int kCannotTrace = 77;

TEST(OrderedCopy, CopiesEveryByteAndNoOther) {
  std::vector<uint8_t> from(512);
  std::iota(from.begin(), from.end(), uint8_t{1});
  for (size_t at = 0; at <= kLineBytes; ++at) {
    for (size_t bytes = 0; bytes <= 300; ++bytes) {
      std::vector<uint8_t> to(512, 0xee);
      std::vector<uint8_t> expected = to;
      std::copy_n(from.begin() + 5, bytes, expected.begin() + static_cast<ptrdiff_t>(at));
      copy_in_order(to.data() + at, from.data() + 5, bytes);
      ASSERT_EQ(to, expected) << bytes << " bytes to offset " << at;
    }
  }
}

/// A copy in a process of its own, one instruction after the other: what a GPU that polls the
/// memory could see. The memory holds zeros before. On a processor that reorders stores a GPU could
/// see more: a missing barrier is not found here.
class SteppedCopy : public ::testing::Test {
 protected:
  SteppedCopy() {
    void* area =
        ::mmap(nullptr, kAreaBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(area, MAP_FAILED);
    to_ = static_cast<uint8_t*>(area);
    std::fill(from_.begin(), from_.end(), uint8_t{0xff});
  }
  ~SteppedCopy() override { ::munmap(to_, kAreaBytes); }

  /// Copies [begin, end), and calls `look` after each instruction.
  void copy(size_t begin, size_t end, const std::function<void()>& look) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kCannotTrace);
      ::raise(SIGSTOP);
      copy_in_order(to_ + begin, from_.data() + begin, end - begin);
      ::_exit(0);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
      look();
      const bool is_step = WSTOPSIG(status) == SIGSTOP || WSTOPSIG(status) == SIGTRAP;
      if (is_step && !HasFatalFailure() &&
          ::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0) {
        continue;
      }
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotTrace) GTEST_SKIP() << "no ptrace here";
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_TRUE(std::equal(to_ + begin, to_ + end, from_.begin()));
  }
  /// No unit shows its flag, the last bytes of it, before all of its data.
  void expect_data_before_flags(size_t unit_bytes, size_t flag_bytes) const {
    for (size_t at = 0; at + unit_bytes <= kAreaBytes; at += unit_bytes) {
      const std::span<const uint8_t> unit(to_ + at, unit_bytes);
      const auto is_there = [](uint8_t byte) { return byte == 0xff; };
      if (!std::ranges::all_of(unit.last(flag_bytes), is_there)) continue;
      ASSERT_TRUE(std::ranges::all_of(unit, is_there)) << "unit at " << at;
    }
  }

  uint8_t* to_ = nullptr;
  std::vector<uint8_t> from_ = std::vector<uint8_t>(kAreaBytes);
};

// The segments of a message over IPv4 and IPv6 with MTU 1500, and short ones. They end within
// words and lines.
TEST_F(SteppedCopy, NoFlagIsSeenBeforeItsData) {
  for (const size_t segment : {1448, 1428, 77}) {
    std::fill_n(to_, kAreaBytes, uint8_t{0});
    for (size_t at = 0; at < kAreaBytes && !IsSkipped(); at += segment) {
      ASSERT_NO_FATAL_FAILURE(copy(at, std::min(at + segment, kAreaBytes), [this] {
        expect_data_before_flags(kWordBytes, 4);
        expect_data_before_flags(kLineBytes, 8);
      })) << segment;
    }
  }
}

}  // namespace
}  // namespace lyre::nccl_adapter
