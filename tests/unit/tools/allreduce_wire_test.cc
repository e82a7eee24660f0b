#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/allreduce/wire.h"

namespace lyre::allreduce {
namespace {

class WireTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair_.data()), 0); }
  void TearDown() override {
    for (const int fd : pair_) {
      if (fd >= 0) ::close(fd);
    }
  }
  void close_sender() {
    ::close(pair_[0]);
    pair_[0] = -1;
  }

  std::array<int, 2> pair_{-1, -1};
  FrameReader reader_;
};

TEST_F(WireTest, FramesArriveWholeAndInOrder) {
  ASSERT_TRUE(send_frame(pair_[0], {FrameType::kError, 3, "one line"}));
  ASSERT_TRUE(send_frame(pair_[0], {FrameType::kGather, 4, nlohmann::json::binary({0, 255, 7})}));
  ASSERT_TRUE(reader_.read_some(pair_[1]));
  const auto first = reader_.next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->type, FrameType::kError);
  EXPECT_EQ(first->rank, 3);
  EXPECT_EQ(first->payload, "one line");
  const auto second = reader_.next();
  ASSERT_TRUE(second.has_value());
  const std::vector<uint8_t> bytes = second->payload.get_binary();
  EXPECT_EQ(bytes, (std::vector<uint8_t>{0, 255, 7}));
  EXPECT_FALSE(reader_.next().has_value());
}

TEST_F(WireTest, AFrameInPiecesIsPutTogether) {
  std::array<int, 2> other{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, other.data()), 0);
  ASSERT_TRUE(send_frame(other[0], {FrameType::kResult, 1, {{"key", "value"}}}));
  std::array<char, 256> bytes{};
  const ssize_t n = ::read(other[1], bytes.data(), bytes.size());
  ::close(other[0]);
  ::close(other[1]);
  for (ssize_t i = 0; i < n; ++i) {
    EXPECT_FALSE(reader_.next().has_value());
    ASSERT_EQ(::write(pair_[0], &bytes[static_cast<size_t>(i)], 1), 1);
    ASSERT_TRUE(reader_.read_some(pair_[1]));
  }
  EXPECT_TRUE(reader_.next().has_value());
}

TEST_F(WireTest, AStrangerIsRecognised) {
  const std::string http = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_EQ(::write(pair_[0], http.data(), http.size()), static_cast<ssize_t>(http.size()));
  ASSERT_TRUE(reader_.read_some(pair_[1]));
  EXPECT_THROW(reader_.next(), Failure);
}

// Some of them begin values within values, for each of which a parser may call itself. Anybody may
// send them to --listen.
TEST_F(WireTest, AFrameOfOneByteRepeatedIsRefused) {
  constexpr uint32_t kBytes = 200'000;
  const std::array<uint32_t, 3> header{kBytes, 0x4c41, 0};  // bytes, magic, rank
  for (int byte = 0; byte < 256; ++byte) {
    std::string frame(reinterpret_cast<const char*>(header.data()), sizeof header);
    frame.append(kBytes, static_cast<char>(byte));
    reader_ = FrameReader();
    for (size_t at = 0; at < frame.size(); at += 32'768) {
      const std::string piece = frame.substr(at, 32'768);
      ASSERT_EQ(::write(pair_[0], piece.data(), piece.size()), static_cast<ssize_t>(piece.size()));
      ASSERT_TRUE(reader_.read_some(pair_[1]));
    }
    EXPECT_THROW(reader_.next(), Failure) << "0x" << std::hex << byte;
  }
}

TEST_F(WireTest, TheEndIsSeenByBothSides) {
  close_sender();
  EXPECT_FALSE(reader_.read_some(pair_[1]));
  EXPECT_FALSE(send_frame(pair_[1], {FrameType::kProgress, 0, nullptr}));
}

}  // namespace
}  // namespace lyre::allreduce
