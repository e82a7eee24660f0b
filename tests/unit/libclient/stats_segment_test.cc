#include "libclient/stats_segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "stack/channel/stats.h"

namespace lyre::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What a daemon left beside its socket.
class LastStatsSegment : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "lyre-last-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string socket() const { return directory_ + "/lyred.sock"; }
  void leave(uint32_t version) const {
    std::vector<char> bytes(sizeof(channel::StatsHeader));
    std::memcpy(bytes.data() + offsetof(channel::StatsHeader, magic), &channel::kStatsMagic,
                sizeof channel::kStatsMagic);
    std::memcpy(bytes.data() + offsetof(channel::StatsHeader, version), &version, sizeof version);
    std::ofstream(socket() + channel::kLastStatsSuffix, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  std::string directory_;
};

TEST_F(LastStatsSegment, OfThisReleaseIsMapped) {
  leave(channel::kStatsVersion);
  Mapping segment;
  EXPECT_EQ(map_last_stats_segment(socket().c_str(), segment), 0) << lyre_last_error();
  EXPECT_EQ(segment.bytes(), sizeof(channel::StatsHeader));
}

// The line told to use the `lyre` of that daemon, which the package had replaced.
TEST_F(LastStatsSegment, OfAnotherReleaseIsSaidToBeReplacedByTheJournal) {
  leave(channel::kStatsVersion - 1);
  Mapping segment;
  EXPECT_EQ(map_last_stats_segment(socket().c_str(), segment), LYRE_E_VERSION);
  EXPECT_NE(segment.data(), nullptr) << "it is no daemon's";
  const std::string line = lyre_last_error();
  EXPECT_THAT(line, HasSubstr(socket() + channel::kLastStatsSuffix));
  EXPECT_THAT(line, HasSubstr("a daemon of another release left this"));
  EXPECT_THAT(line, HasSubstr("see that daemon's log in the journal"));
  EXPECT_THAT(line, Not(HasSubstr("installed with the daemon")));
}

}  // namespace
}  // namespace lyre::client
