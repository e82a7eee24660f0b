#include "daemon/stats/stats_segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <string>

namespace lyre {
namespace {

StatsSegment segment_of(uint32_t workers, uint32_t rows, uint32_t ports) {
  auto made = StatsSegment::create({.daemon_name = "test",
                                    .idle_policy = "adaptive",
                                    .worker_count = workers,
                                    .session_rows = rows,
                                    .port_count = ports,
                                    .has_hugepages = false,
                                    .started_unix_ns = 5});
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

TEST(StatsSegment, PartsDoNotOverlapAndFit) {
  const StatsSegment segment = segment_of(3, 100, 8);
  const channel::StatsHeader& header = segment.header();
  EXPECT_EQ(header.magic, channel::kStatsMagic);
  EXPECT_EQ(header.total_bytes, segment.bytes());
  EXPECT_GE(header.workers_offset, sizeof header);
  EXPECT_GE(header.ports_offset, header.workers_offset + 3 * channel::kWorkerStride);
  EXPECT_GE(header.sessions_offset, header.ports_offset + 8 * sizeof(channel::StatsPort));
  EXPECT_LE(header.sessions_offset + 300 * sizeof(channel::SessionRow), segment.bytes());
  EXPECT_EQ(segment.rows(2).data(), segment.rows(0).data() + 200);
  EXPECT_STREQ(header.daemon_name, "test");
}

// A page that is first asked for while traffic runs may be refused, by SIGBUS.
TEST(StatsSegment, AllOfItIsThereFromTheStart) {
  const StatsSegment segment = segment_of(2, 1000, 8);
  struct stat file {};
  ASSERT_EQ(::fstat(segment.reader_fd(), &file), 0);
  EXPECT_GE(static_cast<uint64_t>(file.st_blocks) * 512, segment.bytes());
}

TEST(StatsSegment, ReadersSeeWritesAndCannotWrite) {
  const StatsSegment segment = segment_of(1, 1, 1);
  segment.worker(0).polls.add(7);
  void* seen = ::mmap(nullptr, segment.bytes(), PROT_READ, MAP_SHARED, segment.reader_fd(), 0);
  ASSERT_NE(seen, MAP_FAILED);
  const auto* stats = reinterpret_cast<const channel::WorkerStats*>(
      static_cast<const uint8_t*>(seen) + segment.header().workers_offset);
  EXPECT_EQ(stats->polls.get(), 7u);
  ::munmap(seen, segment.bytes());
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, segment.reader_fd(), 0),
            MAP_FAILED);
  // Not even by way of /proc.
  const std::string path = "/proc/self/fd/" + std::to_string(segment.reader_fd());
  const OwnedFd again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0), MAP_FAILED);
  EXPECT_LT(::write(again.get(), "x", 1), 0);
}

}  // namespace
}  // namespace lyre
