#include "nccl_adapter/protocol/hello.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/protocol/bytes.h"

namespace lyre::nccl_adapter {
namespace {

using HelloBuffer = std::array<uint8_t, kHelloBytes>;

HelloBuffer sample_hello() {
  Hello hello{.stream_index = 3,
              .stream_count = 4,
              .incarnation = 5,
              .listen_port = 4711,
              .pid = 99,
              .host = "node7"};
  hello.nonce.fill(1);
  hello.comm_id.fill(2);
  HelloBuffer buffer;
  encode(hello, buffer);
  return buffer;
}

TEST(Hello, IsReadByteByByte) {
  const HelloBuffer buffer = sample_hello();
  Hello out;
  for (size_t i = 0; i < buffer.size(); ++i) {
    EXPECT_EQ(read_hello(std::span(buffer).first(i), &out), HelloState::kMore) << i;
  }
  ASSERT_EQ(read_hello(buffer, &out), HelloState::kComplete);
  EXPECT_EQ(out.stream_index, 3);
  EXPECT_EQ(out.stream_count, 4);
  EXPECT_EQ(out.incarnation, 5u);
  EXPECT_EQ(out.pid, 99u);
  EXPECT_EQ(out.listen_port, 4711);
  EXPECT_EQ(out.nonce[15], 1);
  EXPECT_EQ(out.comm_id[15], 2);
  EXPECT_EQ(out.host, "node7");
}

TEST(Hello, TheFirstWrongByteTellsAStranger) {
  Hello out;
  for (size_t i = 0; i < 8; ++i) {
    HelloBuffer buffer = sample_hello();
    buffer[i] ^= 0x20;
    EXPECT_EQ(read_hello(std::span(buffer).first(i), &out), HelloState::kMore);
    EXPECT_EQ(read_hello(std::span(buffer).first(i + 1), &out), HelloState::kStranger);
  }
}

TEST(Hello, LengthsThatLieTellAStranger) {
  Hello out;
  for (const uint16_t bytes : std::initializer_list<uint16_t>{0, 15, 127, 513, 65535}) {
    HelloBuffer buffer = sample_hello();
    put_le<uint16_t>(buffer, 12, bytes);
    EXPECT_EQ(read_hello(buffer, &out), HelloState::kStranger) << bytes;
  }
}

TEST(Hello, ANewerPeerMaySayMore) {
  std::vector<uint8_t> longer(200);
  const HelloBuffer buffer = sample_hello();
  std::copy(buffer.begin(), buffer.end(), longer.begin());
  put_le<uint16_t>(longer, 10, 5);  // the newest version it speaks
  put_le<uint16_t>(longer, 12, 200);
  Hello out;
  EXPECT_EQ(read_hello(std::span(longer).first(199), &out), HelloState::kMore);
  EXPECT_EQ(read_hello(longer, &out), HelloState::kComplete);
}

TEST(Hello, NothingIsSaidBeforeTheAnswer) {
  std::vector<uint8_t> longer(kHelloBytes + 1);
  const HelloBuffer buffer = sample_hello();
  std::copy(buffer.begin(), buffer.end(), longer.begin());
  Hello out;
  EXPECT_EQ(read_hello(longer, &out), HelloState::kStranger);
}

TEST(Hello, VersionsAreJudgedByThePrefixAlone) {
  HelloBuffer buffer = sample_hello();
  put_le<uint16_t>(buffer, 8, 8);
  put_le<uint16_t>(buffer, 10, 9);
  Hello out;
  EXPECT_EQ(read_hello(std::span(buffer).first(kHelloPrefixBytes), &out), HelloState::kVersion);
  EXPECT_EQ(out.version_min, 8);
  EXPECT_EQ(out.version_max, 9);
  put_le<uint16_t>(buffer, 10, 7);  // a range upside down
  EXPECT_EQ(read_hello(buffer, &out), HelloState::kStranger);
}

TEST(Answer, SurvivesTheWire) {
  std::array<uint8_t, kAnswerBytes> buffer;
  Address rail;
  rail.fill(3);
  encode(Answer{.code = AnswerCode::kDeparted,
                .pid = 7,
                .host = "node9",
                .text = "full",
                .placed = 1ull << 40,
                .rails = {rail, Address{}}},
         buffer);
  Answer out;
  ASSERT_TRUE(decode(buffer, &out));
  EXPECT_EQ(out.code, AnswerCode::kDeparted);
  EXPECT_EQ(out.placed, 1ull << 40);
  EXPECT_EQ(out.rails, (std::vector<Address>{rail, Address{}}));
  EXPECT_EQ(out.pid, 7u);
  EXPECT_EQ(out.host, "node9");
  EXPECT_EQ(out.text, "full");
}

TEST(Answer, AnythingElseIsRefused) {
  std::array<uint8_t, kAnswerBytes> buffer;
  encode(Answer{}, buffer);
  Answer out;
  put_le<uint16_t>(buffer, 10, 77);  // no such code
  EXPECT_FALSE(decode(buffer, &out));
  put_le<uint16_t>(buffer, 10, 0);
  put_le<uint16_t>(buffer, 216, 9);  // more rails than there is room for
  EXPECT_FALSE(decode(buffer, &out));
  buffer.fill('H');
  EXPECT_FALSE(decode(buffer, &out));
}

TEST(Answer, TheFirstWrongByteTellsThatItIsNone) {
  for (size_t i = 0; i < 8; ++i) {
    std::array<uint8_t, kAnswerBytes> buffer;
    encode(Answer{}, buffer);
    buffer[i] ^= 0x20;
    EXPECT_TRUE(begins_answer(std::span(buffer).first(i)));
    EXPECT_FALSE(begins_answer(std::span(buffer).first(i + 1)));
    EXPECT_FALSE(begins_answer(buffer));
  }
}

}  // namespace
}  // namespace lyre::nccl_adapter
