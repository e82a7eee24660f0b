#include "daemon/stats_keeper.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "daemon/stats/stats_segment.h"

namespace lyre {
namespace {

class StatsKeeperTest : public ::testing::Test {
 protected:
  StatsKeeperTest() {
    char name[] = "/tmp/lyre-keeper-XXXXXX";
    directory_ = ::mkdtemp(name);
    std::ofstream(socket()).put('x');  // whose rights count
    std::filesystem::permissions(socket(), std::filesystem::perms(0660));
    auto keeper = StatsKeeper::start(path());
    EXPECT_TRUE(keeper.ok());
    keeper_ = std::move(*keeper);
  }
  ~StatsKeeperTest() override { std::filesystem::remove_all(directory_); }

  static StatsSegment make_segment() {
    auto made =
        StatsSegment::create({.daemon_name = "kept", .worker_count = 2, .session_rows = 64});
    EXPECT_TRUE(made.ok());
    return std::move(*made);
  }
  std::string socket() const { return directory_ + "/lyred.sock"; }
  std::string path() const { return directory_ + "/lyred.sock.last"; }
  /// The words of the file, of which the first is the header.
  std::vector<uint64_t> words() const {
    std::vector<uint64_t> out(std::filesystem::file_size(path()) / sizeof(uint64_t));
    std::ifstream file(path(), std::ios::binary);
    file.read(reinterpret_cast<char*>(out.data()),
              static_cast<std::streamsize>(out.size() * sizeof(uint64_t)));
    return out;
  }

  std::string directory_;
  StatsKeeper keeper_;
};

TEST_F(StatsKeeperTest, WritesTheSegmentWhenTheDaemonEnds) {
  const StatsSegment segment = make_segment();
  ASSERT_TRUE(keeper_.keep(segment.reader_fd(), socket()).ok());
  segment.worker(1).polls.add(7);
  EXPECT_FALSE(std::filesystem::exists(path()));
  keeper_ = {};
  const std::vector<uint64_t> kept = words();
  ASSERT_EQ(kept.size() * sizeof(uint64_t), segment.bytes());
  const auto* header = reinterpret_cast<const channel::StatsHeader*>(kept.data());
  EXPECT_STREQ(header->daemon_name, "kept");
  EXPECT_NE(header->ended_unix_ns.get(), 0u);
  const auto* workers = reinterpret_cast<const uint8_t*>(kept.data()) + header->workers_offset;
  EXPECT_EQ(
      reinterpret_cast<const channel::WorkerStats*>(workers + channel::kWorkerStride)->polls.get(),
      7u);
  EXPECT_EQ(segment.header().ended_unix_ns.get(), 0u) << "the segment itself is only read";
}

/// The processes that this thread has started.
std::vector<pid_t> children() {
  std::ifstream file("/proc/thread-self/children");
  std::vector<pid_t> out;
  for (pid_t pid = 0; file >> pid;) out.push_back(pid);
  return out;
}

bool ignores(pid_t pid, int number) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; file >> word;) {
    if (word == "SigIgn:" && file >> word)
      return ((std::stoull(word, nullptr, 16) >> (number - 1)) & 1) != 0;
  }
  return false;
}

// systemd sends it to all processes of the service when a worker hangs.
TEST_F(StatsKeeperTest, TheWatchdogsSignalForTheDaemonDoesNotEndIt) {
  const StatsSegment segment = make_segment();
  ASSERT_TRUE(keeper_.keep(segment.reader_fd(), socket()).ok());
  const std::vector<pid_t> started = children();
  ASSERT_EQ(started.size(), 1u);
  for (int i = 0; i < 5000 && !ignores(started[0], SIGABRT); ++i) ::usleep(1000);
  for (const int number : {SIGABRT, SIGTERM}) ASSERT_EQ(::kill(started[0], number), 0);
  keeper_ = {};
  EXPECT_EQ(words().size() * sizeof(uint64_t), segment.bytes());
}

TEST_F(StatsKeeperTest, WhoMayUseTheSocketMayReadTheFile) {
  const StatsSegment segment = make_segment();
  ASSERT_TRUE(keeper_.keep(segment.reader_fd(), socket()).ok());
  keeper_ = {};
  struct stat file {};
  ASSERT_EQ(::stat(path().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777u, 0440u);
}

TEST_F(StatsKeeperTest, TheFileBeforeIsReplacedAsAWhole) {
  std::ofstream(path()) << "of the daemon before";
  const StatsSegment segment = make_segment();
  ASSERT_TRUE(keeper_.keep(segment.reader_fd(), socket()).ok());
  keeper_ = {};
  EXPECT_EQ(words().size() * sizeof(uint64_t), segment.bytes());
  const auto begin = std::filesystem::directory_iterator(directory_);
  EXPECT_EQ(std::distance(begin, std::filesystem::directory_iterator()), 2);
}

TEST_F(StatsKeeperTest, ADaemonThatDidNotStartLeavesTheFileBefore) {
  std::ofstream(path()) << "of the daemon before";
  keeper_ = {};
  EXPECT_EQ(std::filesystem::file_size(path()), 20u);
}

TEST_F(StatsKeeperTest, ASocketThatIsNotThereIsAnError) {
  const StatsSegment segment = make_segment();
  EXPECT_FALSE(keeper_.keep(segment.reader_fd(), directory_ + "/none").ok());
}

}  // namespace
}  // namespace lyre
