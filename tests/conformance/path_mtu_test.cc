#include <netinet/in.h>

#include "stack/wire/icmp.h"
#include "tests/conformance/scenario.h"

namespace lyre::conformance {
namespace {

TEST(PathMtu, IcmpShrinksSegmentsAndResendsAtOnce) {  // RFC 1191 6.3
  Scenario s;
  s.establish_passive();
  s.write(1000);
  s.expect(kAck);
  s.send_icmp(wire::kIcmpUnreachable, wire::kUnreachableTooBig, 1, 640);
  const auto resent = s.all();
  ASSERT_EQ(resent.size(), 2u);
  EXPECT_EQ(resent[0].bytes, 600u);
  EXPECT_EQ(resent[1].bytes, 400u);
}

TEST(PathMtu, AbsurdOnesAreNotBelieved) {  // RFC 5927 7.2, RFC 791 3.2
  for (const uint16_t mtu : {uint16_t{1}, uint16_t{67}, uint16_t{1500}, uint16_t{65535}}) {
    Scenario s;
    s.establish_passive();
    s.write(1000);
    s.all();
    s.send_icmp(wire::kIcmpUnreachable, wire::kUnreachableTooBig, 1, mtu);
    EXPECT_EQ(s.info().mss_bytes, 1000u) << mtu;
  }
}

/// Without SACK no tail probe comes between the retransmissions.
StackOptions without_sack() {
  StackOptions options = Scenario::plain();
  options.connection.sack = false;
  return options;
}

TEST(BlackHole, LostAgainAndAgainIsTriedSmaller) {  // RFC 4821 7.7, RFC 8899 4.3
  // RFC 1122 3.3.3: what every path of IPv4 carries, less the headers.
  Scenario s(without_sack());
  s.establish_passive();
  s.write(3000);
  s.all();
  EXPECT_EQ(s.expect_later(kAck).bytes, 1000u);
  EXPECT_EQ(s.expect_later(kAck).bytes, 1000u);
  EXPECT_EQ(s.expect_later(kAck).bytes, 536u);
  s.send({.flags = kAck, .seq = 1, .ack = 537});
  for (const Seg& segment : s.all()) EXPECT_LE(segment.bytes, 536u);
  EXPECT_EQ(s.info().mss_bytes, 536u);
}

TEST(BlackHole, OutageDoesNotShrinkSegmentsForGood) {  // the small one was lost as well
  Scenario s(without_sack());
  s.establish_passive();
  s.write(3000);
  s.all();
  for (int i = 0; i < 3; ++i) s.expect_later(kAck);
  EXPECT_EQ(s.info().mss_bytes, 536u);
  s.expect_later(kAck);
  EXPECT_EQ(s.info().mss_bytes, 1000u);
}

TEST(BlackHole, SmallSegmentsAreNotSuspected) {
  Scenario s(without_sack());
  s.establish_passive();
  s.write(500);
  s.all();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(s.expect_later(kAck).bytes, 500u);
  EXPECT_EQ(s.info().mss_bytes, 1000u);
}

TEST(PathMtu, LargerOnesAreTriedAgainAfterTenMinutes) {  // RFC 1191 6.3
  Scenario s;
  s.establish_passive();
  s.write(1000);
  s.all();
  s.send_icmp(wire::kIcmpUnreachable, wire::kUnreachableTooBig, 1, 640);
  s.all();
  s.send({.flags = kAck, .seq = 1, .ack = 1001});
  EXPECT_EQ(s.info().mss_bytes, 600u);
  s.wait(seconds(601));
  s.write(100);
  s.all();
  s.send({.flags = kAck, .seq = 1, .ack = 1101});
  EXPECT_EQ(s.info().mss_bytes, 1000u);
}

}  // namespace
}  // namespace lyre::conformance
