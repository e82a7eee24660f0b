#include "nccl_adapter/protocol/handle.h"

#include <gtest/gtest.h>

namespace lyre::nccl_adapter {
namespace {

using Buffer = std::array<uint8_t, nccl_abi::kHandleBytesMax>;

Handle sample() {
  Handle handle;
  handle.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1};
  handle.port = 4711;
  handle.pid = 1234;
  handle.nonce.fill(0xab);
  handle.others[1].fill(0x20);
  handle.places = {.first = 2, .others = {2, 6}, .ports = 8};
  handle.host = "node7";
  return handle;
}

TEST(Handle, SurvivesTheExchange) {
  Buffer buffer;
  encode(sample(), buffer);
  Handle out;
  ASSERT_EQ(decode(buffer, &out), HandleFault::kNone);
  EXPECT_EQ(out.address, sample().address);
  EXPECT_EQ(out.others, sample().others);
  EXPECT_EQ(out.places, sample().places);
  EXPECT_EQ(out.port, 4711);
  EXPECT_EQ(out.pid, 1234u);
  EXPECT_EQ(out.nonce, sample().nonce);
  EXPECT_EQ(out.host, "node7");
  EXPECT_EQ(get_connect_note(buffer), 0u);
}

// Older plugins write zeros there, and do not read them.
TEST(Handle, PlacesAreInTwoBytesThatWereUnused) {
  constexpr size_t kAt = 14;
  Buffer buffer;
  encode(sample(), buffer);
  EXPECT_EQ(buffer[kAt], 0x22);
  EXPECT_EQ(buffer[kAt + 1], 0x86);
  Handle old = sample();
  old.places = {};
  encode(old, buffer);
  EXPECT_EQ(buffer[kAt] | buffer[kAt + 1], 0);
  Handle out = sample();
  ASSERT_EQ(decode(buffer, &out), HandleFault::kNone);
  EXPECT_EQ(out.places, HandlePlaces{});
}

TEST(Handle, TheConnectNoteChangesNothingElse) {
  Buffer buffer;
  encode(sample(), buffer);
  set_connect_note(buffer, 0x1122334455667788);
  EXPECT_EQ(get_connect_note(buffer), 0x1122334455667788u);
  Handle out;
  EXPECT_EQ(decode(buffer, &out), HandleFault::kNone);
}

TEST(Handle, EveryFlippedBitIsNoticed) {
  Buffer buffer;
  encode(sample(), buffer);
  for (size_t bit = 0; bit < 120 * 8; ++bit) {
    Buffer damaged = buffer;
    damaged[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    Handle out;
    EXPECT_NE(decode(damaged, &out), HandleFault::kNone) << "bit " << bit;
  }
}

TEST(Handle, LongNamesAreCut) {
  Handle handle = sample();
  handle.host = std::string(300, 'x');
  Buffer buffer;
  encode(handle, buffer);
  Handle out;
  ASSERT_EQ(decode(buffer, &out), HandleFault::kNone);
  EXPECT_EQ(out.host, std::string(kHandleHostBytes - 1, 'x'));
}

TEST(Handle, NamesCannotReachATerminalUnfiltered) {
  Handle handle = sample();
  handle.host = "a\x1b[2Jb";
  Buffer buffer;
  encode(handle, buffer);
  Handle out;
  ASSERT_EQ(decode(buffer, &out), HandleFault::kNone);
  EXPECT_EQ(out.host, "a?[2Jb");
}

TEST(Handle, VersionRangesMustMeet) {
  Handle handle = sample();
  Buffer buffer;
  Handle out;
  handle.version_min = kProtocolVersionMax + 1;
  handle.version_max = kProtocolVersionMax + 2;
  encode(handle, buffer);
  EXPECT_EQ(decode(buffer, &out), HandleFault::kVersion);
  EXPECT_EQ(out.host, "node7");
  handle.version_min = kProtocolVersionMin;
  encode(handle, buffer);
  EXPECT_EQ(decode(buffer, &out), HandleFault::kNone);
}

TEST(Handle, ForeignOnesAreDescribed) {
  Buffer buffer{};
  Handle out;
  EXPECT_EQ(decode(buffer, &out), HandleFault::kForeign);
  EXPECT_EQ(describe_foreign(buffer), "a handle that starts with 00 00 00 00 00 00 00 00");
  buffer[0] = 2;  // AF_INET
  buffer[2] = 0x12;
  buffer[3] = 0x67;
  buffer[4] = 192;
  buffer[7] = 9;
  EXPECT_EQ(describe_foreign(buffer), "NCCL's own sockets at 192.0.0.9:4711, it seems");
}

}  // namespace
}  // namespace lyre::nccl_adapter
