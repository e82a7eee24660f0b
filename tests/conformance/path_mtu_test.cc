#include <netinet/in.h>

#include "tests/conformance/scenario.h"

namespace lyre::conformance {
namespace {

constexpr uint16_t kFull = 2000;  ///< payload of a segment at the start
constexpr uint16_t kSmallMtu =
    1280;  ///< RFC 8200 5: the minimum of IPv6, and an arbitrary one for IPv4

/// A path whose link carries segments of kFull bytes.
class OverPath : public OverBoth {
 protected:
  bool is_v4() const { return GetParam() == Family::kIpv4; }
  /// Payload of a packet of kSmallMtu.
  uint32_t small() const { return kSmallMtu - (is_v4() ? 40u : 60u); }
  /// RFC 1122 3.3.3, RFC 8200 5: the payload that every path carries.
  uint32_t everywhere() const { return is_v4() ? 536 : small(); }

  static StackOptions wide() {
    StackOptions options = Scenario::plain();
    options.mtu_bytes = kFull + 40;
    options.connection.slot_bytes = kFull;
    return options;
  }
  /// Without SACK no tail loss probe is sent between the retransmissions.
  static StackOptions without_sack() {
    StackOptions options = wide();
    options.connection.sack = false;
    return options;
  }
  /// Sends `bytes` that are never acknowledged.
  static void start(Scenario& s, size_t bytes) {
    s.establish_passive(Scenario::offered(kFull));
    s.write(bytes);
    s.all();
  }
};

using PathMtu = OverPath;
INSTANTIATE_OVER_BOTH(PathMtu);

TEST_P(PathMtu, IcmpShrinksSegmentsAndResendsAtOnce) {  // RFC 1191 6.3, RFC 8201 5.4
  Scenario s(wide(), GetParam());
  start(s, kFull);
  s.send_icmp(IcmpSays::kTooBig, 1, kSmallMtu);
  const auto resent = s.all();
  ASSERT_EQ(resent.size(), 2u);
  EXPECT_EQ(resent[0].bytes, small());
  EXPECT_EQ(resent[1].bytes, kFull - small());
}

TEST_P(PathMtu, AbsurdOnesAreNotBelieved) {  // RFC 5927 7.2, RFC 791 3.2, RFC 8201 4
  std::vector<uint16_t> absurd = {1, 67, kFull + 60, 65535};
  if (!is_v4()) absurd.push_back(kSmallMtu - 1);
  for (const uint16_t mtu : absurd) {
    Scenario s(wide(), GetParam());
    start(s, kFull);
    s.send_icmp(IcmpSays::kTooBig, 1, mtu);
    EXPECT_EQ(s.info().mss_bytes, kFull) << mtu;
    s.expect_silence();
  }
}

using BlackHole = OverPath;
INSTANTIATE_OVER_BOTH(BlackHole);

TEST_P(BlackHole, LostAgainAndAgainIsTriedSmaller) {  // RFC 4821 7.7, RFC 8899 4.3
  Scenario s(without_sack(), GetParam());
  start(s, 3 * kFull);
  EXPECT_EQ(s.expect_later(kAck).bytes, kFull);
  EXPECT_EQ(s.expect_later(kAck).bytes, kFull);
  EXPECT_EQ(s.expect_later(kAck).bytes, everywhere());
  s.send({.flags = kAck, .seq = 1, .ack = 1 + everywhere()});
  for (const Seg& segment : s.all()) EXPECT_LE(segment.bytes, everywhere());
  EXPECT_EQ(s.info().mss_bytes, everywhere());
}

TEST_P(BlackHole, OutageDoesNotShrinkSegmentsForGood) {  // the small one was lost as well
  Scenario s(without_sack(), GetParam());
  start(s, 3 * kFull);
  for (int i = 0; i < 3; ++i) s.expect_later(kAck);
  EXPECT_EQ(s.info().mss_bytes, everywhere());
  s.expect_later(kAck);
  EXPECT_EQ(s.info().mss_bytes, kFull);
}

TEST_P(BlackHole, SmallSegmentsAreNotSuspected) {
  Scenario s(without_sack(), GetParam());
  start(s, 500);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(s.expect_later(kAck).bytes, 500u);
  EXPECT_EQ(s.info().mss_bytes, kFull);
}

TEST_P(BlackHole, OptionsMakeASegmentTooBig) {  // RFC 9293 3.7.1
  StackOptions options = without_sack();
  options.connection.timestamps = true;
  Scenario s(options, GetParam());
  s.establish_passive(stamp(1, 0, Scenario::offered(kFull)));
  s.write(everywhere() - 5);
  s.all();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(s.expect_later(kAck).bytes, everywhere() - 5);
  EXPECT_EQ(s.expect_later(kAck).bytes, everywhere() - 12);
}

TEST_P(PathMtu, LargerOnesAreTriedAgainAfterTenMinutes) {  // RFC 1191 6.3, RFC 8201 4
  Scenario s(wide(), GetParam());
  start(s, kFull);
  s.send_icmp(IcmpSays::kTooBig, 1, kSmallMtu);
  s.all();
  s.send({.flags = kAck, .seq = 1, .ack = 1 + kFull});
  EXPECT_EQ(s.info().mss_bytes, small());
  s.wait(seconds(601));
  s.write(100);
  s.all();
  s.send({.flags = kAck, .seq = 1, .ack = 101 + kFull});
  EXPECT_EQ(s.info().mss_bytes, kFull);
}

}  // namespace
}  // namespace lyre::conformance
