#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "stack/record/stream.h"

namespace lyre::record {
namespace {

enum class Colour : uint8_t { kRed, kGreen, kBlue };

struct Point {
  uint32_t x = 0;
  int64_t y = 0;
  bool is_new = false;
  Colour colour = Colour::kRed;
  double weight = 0;
  SeqNum seq;
  Nanos at;
  IpAddress address;
  uint16_t later = 7;  ///< since version 2
};

template <typename Fields, typename T>
void list_point(Fields& fields, T& point) {
  fields.number(point.x, 1u, 1000u);
  fields.number(point.y);
  fields.flag(point.is_new);
  fields.one_of(point.colour, Colour::kBlue);
  fields.real(point.weight, 0, 10);
  fields.seq(point.seq);
  fields.time(point.at);
  fields.address(point.address);
  if (fields.has_since(2)) fields.number(point.later);
}

constexpr Kind kKind = Kind::kWorker;

std::vector<uint8_t> written(const Point& point, uint16_t version = 2) {
  Writer out;
  out.add(kKind, version, [&](FieldWriter& fields) { list_point(fields, point); });
  return out.bytes();
}

bool read(std::span<const uint8_t> bytes, Point& point, uint16_t newest = 2) {
  Reader in(bytes);
  return in.take(kKind, newest, [&](FieldReader& fields) { list_point(fields, point); }) &&
         in.is_at_end();
}

Point some_point() {
  return {.x = 1000,
          .y = -5,
          .is_new = true,
          .colour = Colour::kBlue,
          .weight = 2.5,
          .seq = SeqNum(0xfffffff0),
          .at = kNever,
          .address = IpAddress::v4(0x0a090001),
          .later = 9};
}

TEST(Record, IsReadAsItWasWritten) {
  Point point;
  ASSERT_TRUE(read(written(some_point()), point));
  EXPECT_EQ(point.x, 1000u);
  EXPECT_EQ(point.y, -5);
  EXPECT_TRUE(point.is_new);
  EXPECT_EQ(point.colour, Colour::kBlue);
  EXPECT_EQ(point.weight, 2.5);
  EXPECT_EQ(point.seq, SeqNum(0xfffffff0));
  EXPECT_EQ(point.at, kNever);
  EXPECT_EQ(point.address, IpAddress::v4(0x0a090001));
  EXPECT_EQ(point.later, 9);
}

TEST(Record, IsLittleEndianWithoutPadding) {
  const std::vector<uint8_t> bytes = written(some_point());
  const std::vector<uint8_t> begin(bytes.begin(), bytes.begin() + 12);
  EXPECT_EQ(begin, (std::vector<uint8_t>{1, 0, 2, 0, 52, 0, 0, 0, 0xe8, 3, 0, 0}));
}

TEST(Record, RefusesValuesOutsideTheirLimits) {
  const auto is_refused = [](auto change) {
    Point point = some_point();
    change(point);
    Point other;
    return !read(written(point), other);
  };
  EXPECT_TRUE(is_refused([](Point& point) { point.x = 0; }));
  EXPECT_TRUE(is_refused([](Point& point) { point.x = 1001; }));
  EXPECT_TRUE(is_refused([](Point& point) { point.colour = static_cast<Colour>(3); }));
  EXPECT_TRUE(is_refused([](Point& point) { point.weight = -1; }));
  EXPECT_TRUE(
      is_refused([](Point& point) { point.weight = std::numeric_limits<double>::quiet_NaN(); }));
  EXPECT_TRUE(is_refused([](Point& point) { point.at = Nanos{INT64_MIN}; }));
}

TEST(Record, RefusesEveryPrefix) {
  const std::vector<uint8_t> bytes = written(some_point());
  for (size_t count = 0; count < bytes.size(); ++count) {
    Point point;
    EXPECT_FALSE(read(std::span(bytes).first(count), point)) << count;
  }
}

TEST(Record, RefusesWhatIsLeftOver) {
  std::vector<uint8_t> bytes = written(some_point());
  bytes.push_back(0);
  ++bytes[4];  // the length
  Point point;
  EXPECT_FALSE(read(bytes, point));
}

TEST(Record, OfAnEarlierVersionLeavesLaterFieldsAsTheyAre) {
  std::vector<uint8_t> bytes = written(some_point(), 1);
  bytes.resize(bytes.size() - 2);  // as a writer of version 1 had it
  bytes[4] = static_cast<uint8_t>(bytes[4] - 2);
  Point point;
  ASSERT_TRUE(read(bytes, point));
  EXPECT_EQ(point.later, 7);
}

TEST(Record, OfALaterVersionIsRefused) {
  Point point;
  EXPECT_FALSE(read(written(some_point(), 3), point));
  EXPECT_FALSE(read(written(some_point(), 0), point));
}

TEST(Record, WhatALaterVersionAppendsIsPassedOverWhereTheReaderSaysSo) {
  const auto read_known = [](std::span<const uint8_t> bytes, Point& point) {
    Reader in(bytes);
    const auto list = [&](FieldReader& fields) { list_point(fields, point); };
    return in.take_known(kKind, 2, list) && in.is_at_end();
  };
  const auto grown = [](uint16_t version) {
    std::vector<uint8_t> bytes = written(some_point(), version);
    bytes.insert(bytes.end(), 5, 0xa5);
    bytes[4] = static_cast<uint8_t>(bytes[4] + 5);
    return bytes;
  };
  Point point;
  EXPECT_TRUE(read_known(grown(3), point));
  EXPECT_EQ(point.later, 9);
  EXPECT_FALSE(read_known(grown(2), point)) << "this version is known";
  EXPECT_FALSE(read_known(grown(0), point));
  const std::vector<uint8_t> bytes = grown(3);
  for (size_t count = 0; count < bytes.size(); ++count) {
    EXPECT_FALSE(read_known(std::span(bytes).first(count), point)) << count;
  }
  Point wrong = some_point();
  wrong.x = 0;
  EXPECT_FALSE(read_known(written(wrong, 3), point));
}

TEST(Record, OfAnotherKindStays) {
  const std::vector<uint8_t> bytes = written(some_point());
  Reader in(bytes);
  EXPECT_FALSE(in.take(Kind::kSession, 2, [](FieldReader&) {}));
  EXPECT_EQ(in.next(), kKind);
}

}  // namespace
}  // namespace lyre::record
