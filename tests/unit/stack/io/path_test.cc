#include "stack/io/sim/path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "stack/io/sim/frame.h"

namespace lyre::io::sim {
namespace {

constexpr uint32_t kLength = 1000;

std::vector<Fate> fates(const PathOptions& options, uint64_t seed, uint32_t count,
                        Nanos gap = micros(1)) {
  Path path(options, seed);
  std::vector<Fate> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back(path.on_frame(kLength, gap * i));
  return out;
}

uint32_t lost_in(const std::vector<Fate>& all) {
  return static_cast<uint32_t>(
      std::count_if(all.begin(), all.end(), [](const Fate& fate) { return fate.copies == 0; }));
}

std::string summary(const std::vector<Fate>& all) {
  std::string text;
  for (const Fate& fate : all) {
    text += std::to_string(fate.copies) + ":" + std::to_string(fate.due[0].value) + " ";
  }
  return text;
}

const PathOptions kRough = {.delay = micros(50),
                            .loss_ppm = 50'000,
                            .duplicate_ppm = 50'000,
                            .corrupt_ppm = 50'000,
                            .reorder_ppm = 50'000};

TEST(Path, DoesNothingUnlessAsked) {
  for (const Fate& fate : fates({}, 1, 100, micros(1))) {
    EXPECT_EQ(fate.copies, 1u);
    EXPECT_EQ(fate.corrupt_bit, Fate::kNoBit);
    EXPECT_FALSE(fate.is_marked);
  }
}

TEST(Path, RepeatsItselfForTheSameSeedOnly) {
  EXPECT_EQ(summary(fates(kRough, 7, 1000)), summary(fates(kRough, 7, 1000)));
  EXPECT_NE(summary(fates(kRough, 7, 1000)), summary(fates(kRough, 8, 1000)));
}

TEST(Path, HarmsAsOftenAsAskedAndCountsIt) {
  Path path(kRough, 3);
  uint64_t lost = 0;
  for (uint32_t i = 0; i < 100'000; ++i) lost += path.on_frame(kLength, micros(i)).copies == 0;
  const PathCounters& counters = path.counters();
  EXPECT_EQ(counters.carried, 100'000u);
  EXPECT_EQ(counters.lost, lost);
  EXPECT_NEAR(static_cast<double>(counters.lost), 5000, 400);
  // Fractions of the frames that are not lost.
  for (const uint64_t count : {counters.duplicated, counters.corrupted, counters.reordered}) {
    EXPECT_NEAR(static_cast<double>(count), 4750, 600);
  }
  EXPECT_EQ(counters.overflowed, 0u);
}

TEST(Path, LosesInBurstsWhileItIsBad) {
  const std::vector<Fate> all =
      fates({.bad_enter_ppm = 10'000, .bad_leave_ppm = 250'000}, 5, 50'000);
  uint32_t bursts = 0;
  for (size_t i = 1; i < all.size(); ++i) bursts += all[i].copies == 0 && all[i - 1].copies != 0;
  ASSERT_GT(bursts, 100u);
  // The bad state is left with a probability of a quarter, so a burst has four frames on average.
  EXPECT_NEAR(static_cast<double>(lost_in(all)) / bursts, 4.0, 0.8);
}

TEST(Path, SendsOneFrameAfterTheOtherAtItsRate) {
  const auto all = fates({.delay = micros(10), .rate_bytes_per_s = 1'000'000}, 1, 3, nanos(0));
  EXPECT_EQ(all[0].due[0], micros(1010));
  EXPECT_EQ(all[1].due[0], micros(2010));
  EXPECT_EQ(all[2].due[0], micros(3010));
}

TEST(Path, LosesWhatDoesNotFitIntoTheQueueAndMarksBefore) {
  Path path({.rate_bytes_per_s = 1'000'000, .queue_bytes = 4000, .mark_bytes = 1500}, 1);
  std::string seen;
  for (int i = 0; i < 6; ++i) {
    const Fate fate = path.on_frame(kLength, nanos(0));
    seen += fate.copies == 0 ? '-' : fate.is_marked ? '!' : '+';
  }
  EXPECT_EQ(seen, "++!!--");
  EXPECT_EQ(path.counters().overflowed, 2u);
  // The queue drains with time.
  EXPECT_EQ(path.on_frame(kLength, millis(4)).copies, 1u);
}

TEST(Path, NeverFlipsABitOfTheEthernetHeader) {
  for (const Fate& fate : fates({.corrupt_ppm = 1'000'000}, 9, 1000)) {
    EXPECT_GE(fate.corrupt_bit, 14u * 8);
    EXPECT_LT(fate.corrupt_bit, kLength * 8);
  }
}

TEST(Path, HoldsUpButNeverHarmsWhatMayPass) {
  Path path({.delay = millis(1), .loss_ppm = 1'000'000}, 1);
  EXPECT_EQ(path.pass(60, nanos(5)).copies, 1u);
  EXPECT_EQ(path.pass(60, nanos(5)).due[0], millis(1) + nanos(5));
}

std::vector<uint8_t> ipv4_frame(uint8_t tos, uint8_t protocol) {
  std::vector<uint8_t> frame(14 + 40);
  frame[12] = 8;
  frame[14] = 0x45;
  frame[15] = tos;
  frame[23] = protocol;
  ChecksumSum sum;
  sum.add({frame.data() + 14, 20});
  const uint16_t folded = sum.finish();
  std::memcpy(frame.data() + 24, &folded, 2);
  return frame;
}

// RFC 3168 5: only what is ECN-capable may be marked.
TEST(Mark, TellsEcnCapableTrafficAndKeepsTheChecksumRight) {
  for (uint8_t ecn = 1; ecn <= 3; ++ecn) {
    std::vector<uint8_t> frame = ipv4_frame(ecn, 6);
    mark_congestion(frame);
    EXPECT_EQ(frame[15], 3);
    ChecksumSum sum;
    sum.add({frame.data() + 14, 20});
    EXPECT_EQ(sum.fold(), 0xffff);
  }
  std::vector<uint8_t> plain = ipv4_frame(0x10, 6);
  mark_congestion(plain);
  EXPECT_EQ(plain, ipv4_frame(0x10, 6));
}

TEST(Frame, IsTcpOrNot) {
  EXPECT_TRUE(is_tcp(ipv4_frame(0, 6)));
  EXPECT_FALSE(is_tcp(ipv4_frame(0, 17)));
  EXPECT_FALSE(is_tcp(std::vector<uint8_t>(20)));
}

}  // namespace
}  // namespace lyre::io::sim
