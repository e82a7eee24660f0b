#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

constexpr uint32_t kHeadersBytes = 40;
constexpr uint32_t kFullMtu = 9000;
constexpr uint32_t kSmallMtu = 576;
constexpr Nanos kRoundTrip = millis(10);

ConnectionConfig jumbo() {
  ConnectionConfig config = Peer::plain_config();
  config.mss_bytes = kFullMtu - kHeadersBytes;
  config.send_buffer_bytes = 64 << 20;
  config.window_scaling = true;
  return config;
}

/// A receiver behind a path that drops packets of more than `mtu_bytes` and tells nobody. It
/// acknowledges what came once in a round trip.
class SilentPath {
 public:
  explicit SilentPath(uint32_t mtu) : mtu_bytes(mtu), peer(jumbo()) {
    peer.syn_options.mss = kFullMtu - kHeadersBytes;
    peer.syn_options.window_scale = 7;
    peer.dial();
    peer.app_send(60 << 20);
  }

  /// Sends what may be sent, and waits a round trip; for a timer where there was nothing.
  void run_round() {
    const std::vector<SegmentOut> sent = peer.all();
    if (sent.empty()) {
      peer.run_deadline();
      return;
    }
    peer.wait(kRoundTrip);
    const uint32_t acked = next_;
    for (const SegmentOut& segment : sent) take(segment);
    if (next_ != acked || !above_.empty()) answer();
  }

  void run_rounds(int count) {
    for (int i = 0; i < count; ++i) run_round();
  }

  /// Until the losses have shown that the path drops large packets.
  void find_hole() {
    while (!hole()) run_round();
    large_lost = 0;
  }

  std::optional<BlackHole> hole() const { return peer.engine.send_side(peer.conn).black_hole; }

  uint32_t mtu_bytes;
  bool loses_next_large = false;  ///< the next one larger than the others, though it would fit
  uint32_t large_lost = 0;
  Peer peer;

 private:
  using Range = std::pair<uint32_t, uint32_t>;

  void take(const SegmentOut& segment) {
    const uint32_t bytes = segment.payload_bytes;
    const bool is_unlucky = loses_next_large && bytes > peer.info().mss_bytes;
    if (bytes + kHeadersBytes > mtu_bytes || is_unlucky) {
      ++large_lost;
      loses_next_large = loses_next_large && !is_unlucky;
      return;
    }
    above_.push_back({peer.at(segment.seq), peer.at(segment.seq) + bytes});
    std::sort(above_.begin(), above_.end());
    std::vector<Range> left;
    for (const Range& range : above_) {
      if (range.first <= next_) {
        next_ = std::max(next_, range.second);
      } else if (!left.empty() && range.first <= left.back().second) {
        left.back().second = std::max(left.back().second, range.second);
      } else {
        left.push_back(range);
      }
    }
    above_ = left;
  }

  void answer() {
    std::vector<Range> blocks = above_;
    if (blocks.size() > 3) blocks.resize(3);
    peer.ack_with_sack(next_, blocks);
  }

  uint32_t next_ = 0;         ///< RCV.NXT
  std::vector<Range> above_;  ///< what came behind gaps
};

constexpr int kManyRounds = 60;

TEST(PathSearch, FindsTheLargestSizeThatThePathCarries) {  // RFC 4821 7.3, RFC 8899 5.3
  struct Case {
    uint32_t path_mtu;
    uint32_t found_mtu;
  };
  for (const Case& one : {Case{kSmallMtu, kSmallMtu}, Case{1300, 1280}, Case{1400, 1400},
                          Case{1500, 1500}, Case{8500, 8500}, Case{kFullMtu, kFullMtu}}) {
    SilentPath path(kSmallMtu);
    path.find_hole();
    EXPECT_EQ(path.peer.info().mss_bytes, kSmallMtu - kHeadersBytes);
    path.mtu_bytes = one.path_mtu;
    path.run_rounds(kManyRounds);
    EXPECT_EQ(path.peer.info().mss_bytes, one.found_mtu - kHeadersBytes);
    EXPECT_LE(path.large_lost, 2u) << one.path_mtu;
    EXPECT_EQ(path.hole().has_value(), one.found_mtu != kFullMtu);
    EXPECT_EQ(path.peer.info().fast_recoveries, 0u) << "RFC 4821 7.6.2: no sign of congestion";
  }
}

TEST(PathSearch, GoesOnAfterOneLostProbe) {
  SilentPath path(kSmallMtu);
  path.find_hole();
  path.mtu_bytes = kFullMtu;
  path.loses_next_large = true;
  path.run_rounds(kManyRounds);
  EXPECT_EQ(path.large_lost, 1u);
  EXPECT_EQ(path.peer.info().mss_bytes, kFullMtu - kHeadersBytes);
}

/// What it found is what later connections begin with.
TEST(PathSearch, TellsWhatItFound) {
  SilentPath path(kSmallMtu);
  path.find_hole();
  path.mtu_bytes = 1500;
  path.run_rounds(kManyRounds);
  const std::optional<BlackHole> hole = path.hole();
  ASSERT_TRUE(hole.has_value());
  EXPECT_EQ(hole->mtu_bytes, 1500u);
  Peer second(jumbo());
  second.syn_options.mss = kFullMtu - kHeadersBytes;
  second.open_with_path_mtu(hole->mtu_bytes, /*is_dialed=*/true);
  second.app_send(30'000);
  for (const SegmentOut& segment : second.all()) EXPECT_EQ(segment.payload_bytes, 1460u);
}

/// Its full size is known to be too large, so no segment of that size is lost again.
TEST(PathSearch, BeginsAnewAfterAnOutage) {
  SilentPath path(kSmallMtu);
  path.find_hole();
  path.mtu_bytes = 1500;
  path.run_rounds(kManyRounds);
  path.mtu_bytes = 0;
  const uint32_t timeouts = path.peer.info().timeouts;
  while (path.peer.info().timeouts < timeouts + 3) path.run_round();
  path.mtu_bytes = 1500;
  path.large_lost = 0;
  EXPECT_EQ(path.peer.info().mss_bytes, kSmallMtu - kHeadersBytes);
  path.run_rounds(kManyRounds);
  EXPECT_EQ(path.peer.info().mss_bytes, 1460u);
  EXPECT_LE(path.large_lost, 2u);
}

}  // namespace
}  // namespace lyre::tcp
