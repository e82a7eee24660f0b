#include "nccl_adapter/transport/transport.h"

#include <gtest/gtest.h>

#include <deque>
#include <string_view>
#include <vector>

#include "tests/unit/nccl_adapter/idle_transport.h"

namespace lyre::nccl_adapter {
namespace {

/// A transport whose received bytes are texts, each of them a slice.
class TextTransport final : public IdleTransport {
 public:
  bool has_ended() const override { return end_ != Io::kAgain; }
  void close() override { release_all(); }
  void abort() override { release_all(); }
  Io send_small(std::span<const uint8_t>) override { return Io::kFailed; }
  Io send_chunk(const Chunk&) override { return Io::kFailed; }

  void arrive(std::string_view text) { arrived_.push_back(text); }
  void end(Io how) { end_ = how; }

  size_t takes = 0;                  ///< calls that asked for slices
  std::vector<uint32_t> given_back;  ///< tokens, in order

 private:
  Io take_slices(std::span<lyre_slice> out, size_t* count) override {
    ++takes;
    if (arrived_.empty()) return end_;
    for (*count = 0; *count < out.size() && !arrived_.empty(); ++*count) {
      out[*count] = {arrived_.front().data(), static_cast<uint32_t>(arrived_.front().size()),
                     next_token_++};
      arrived_.pop_front();
    }
    return Io::kOk;
  }
  void give_back(std::span<const lyre_slice> slices) override {
    for (const lyre_slice& slice : slices) given_back.push_back(slice.token);
  }

  std::deque<std::string_view> arrived_;
  uint32_t next_token_ = 0;
  Io end_ = Io::kAgain;
};

std::string_view peek_text(TextTransport& transport) {
  std::span<const uint8_t> bytes;
  if (transport.peek(&bytes) != Io::kOk) return {};
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(TransportOfALane, GivesSlicesInOrderAndTheRestOfAPartlyConsumedOne) {
  TextTransport transport;
  transport.arrive("abcd");
  transport.arrive("ef");
  EXPECT_EQ(peek_text(transport), "abcd");
  transport.consume(1);
  EXPECT_EQ(peek_text(transport), "bcd");
  transport.consume(3);
  EXPECT_EQ(peek_text(transport), "ef");
  EXPECT_EQ(transport.takes, 1u);
}

TEST(TransportOfALane, GivesBackEachConsumedSliceOnce) {
  TextTransport transport;
  for (const std::string_view text : {"a", "b", "cd"}) transport.arrive(text);
  for (int i = 0; i < 2; ++i) {
    peek_text(transport);
    transport.consume(1);
  }
  transport.release();
  EXPECT_EQ(transport.given_back, (std::vector<uint32_t>{0, 1}));
  peek_text(transport);
  transport.consume(1);
  transport.release();
  EXPECT_EQ(transport.given_back.size(), 2u) << "the last one is not wholly consumed";
  transport.consume(1);
  transport.release();
  transport.release();
  EXPECT_EQ(transport.given_back, (std::vector<uint32_t>{0, 1, 2}));
}

TEST(TransportOfALane, GivesBackWhatWasConsumedBeforeItTakesMore) {
  TextTransport transport;
  for (int i = 0; i < kSlicesPerTake + 1; ++i) transport.arrive("x");
  for (int i = 0; i < kSlicesPerTake; ++i) {
    peek_text(transport);
    transport.consume(1);
  }
  EXPECT_EQ(transport.takes, 1u);
  EXPECT_TRUE(transport.given_back.empty());
  EXPECT_EQ(peek_text(transport), "x");
  EXPECT_EQ(transport.takes, 2u);
  EXPECT_EQ(transport.given_back.size(), size_t{kSlicesPerTake});
}

TEST(TransportOfALane, GivesBackAtItsEndWhatNobodyConsumed) {
  TextTransport transport;
  for (const std::string_view text : {"a", "b"}) transport.arrive(text);
  peek_text(transport);
  transport.close();
  EXPECT_EQ(transport.given_back, (std::vector<uint32_t>{0, 1}));
}

TEST(TransportOfALane, TellsTheEndBehindTheLastByte) {
  TextTransport transport;
  std::span<const uint8_t> bytes;
  EXPECT_EQ(transport.peek(&bytes), Io::kAgain);
  transport.arrive("a");
  transport.end(Io::kFinished);
  EXPECT_EQ(peek_text(transport), "a");
  transport.consume(1);
  EXPECT_EQ(transport.peek(&bytes), Io::kFinished);
}

}  // namespace
}  // namespace lyre::nccl_adapter
