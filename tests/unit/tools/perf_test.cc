#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/lyre/failure.h"
#include "tools/lyre/perf/client.h"
#include "tools/lyre/perf/conversation.h"
#include "tools/lyre/perf/pattern.h"
#include "tools/lyre/perf/protocol.h"
#include "tools/lyre/perf/report.h"
#include "tools/lyre/perf/sha256.h"
#include "tools/lyre/perf/turns.h"

namespace lyre::perf {
namespace {

/// A stream in memory that takes and gives bytes in small, odd pieces.
class PipeStream final : public Stream {
 public:
  struct Half {
    std::deque<uint8_t> bytes;
    bool is_finished = false;
    uint64_t total = 0;
    uint64_t flip_at = UINT64_MAX;  ///< this byte arrives wrong
  };

  /// `is_reluctant`: takes a write only when it is asked once more.
  PipeStream(Half& out, Half& in, size_t piece_bytes, bool is_reluctant = false)
      : out_(out), in_(in), piece_bytes_(piece_bytes), is_reluctant_(is_reluctant) {}

  bool is_open() override { return true; }
  std::span<uint8_t> try_begin_write(size_t bytes) override {
    if (out_.bytes.size() > 10'000 || !try_flush()) return {};
    block_.resize(bytes);
    return block_;
  }
  void commit_write(size_t bytes) override {
    committed_ = bytes;
    if (!is_reluctant_) try_flush();
  }
  bool try_flush() override {
    for (size_t i = 0; i < committed_; ++i) {
      const uint8_t flip = out_.total++ == out_.flip_at ? 0x10 : 0;
      out_.bytes.push_back(block_[i] ^ flip);
    }
    committed_ = 0;
    return true;
  }
  std::span<const uint8_t> peek() override {
    if (piece_.empty()) {
      while (!in_.bytes.empty() && piece_.size() < piece_bytes_) {
        piece_.push_back(in_.bytes.front());
        in_.bytes.pop_front();
      }
      is_at_end_ = piece_.empty() && in_.is_finished;
    }
    return piece_;
  }
  void consume(size_t bytes) override {
    piece_.erase(piece_.begin(), piece_.begin() + static_cast<ptrdiff_t>(bytes));
  }
  bool is_at_end() const override { return is_at_end_; }
  void finish() override { out_.is_finished = true; }
  std::string peer() const override { return "pipe"; }

 private:
  Half& out_;
  Half& in_;
  size_t piece_bytes_;
  bool is_reluctant_;
  size_t committed_ = 0;
  std::vector<uint8_t> block_;
  std::vector<uint8_t> piece_;
  bool is_at_end_ = false;
};

struct Pipe {
  PipeStream::Half to_server;
  PipeStream::Half to_client;
};

/// Runs a plan between two conversations; the outcomes of client and server.
std::pair<Outcome, Outcome> converse(Pipe& pipe, const Plan& plan, bool is_reluctant = false) {
  Conversation client(
      std::make_unique<PipeStream>(pipe.to_server, pipe.to_client, 701, is_reluctant), plan);
  Conversation server(
      std::make_unique<PipeStream>(pipe.to_client, pipe.to_server, 13, is_reluctant), std::nullopt);
  for (int64_t step = 1; step < 1'000'000; ++step) {
    client.step(step);
    server.step(step);
    if (client.is_over() && server.is_over()) break;
  }
  EXPECT_TRUE(client.is_over() && server.is_over());
  return {client.outcome(), server.outcome()};
}

Plan bulk_plan(Direction direction) {
  Plan plan;
  plan.direction = direction;
  plan.bytes = 100'003;
  plan.block_bytes = 4099;  // odd on purpose: payload is not aligned
  plan.seed = 42;
  plan.has_hash = true;
  return plan;
}

TEST(Perf, ProgressGrowsToTheWholeTransfer) {
  Pipe pipe;
  const Plan plan = bulk_plan(Direction::kToServer);
  Conversation client(std::make_unique<PipeStream>(pipe.to_server, pipe.to_client, 701), plan);
  Conversation server(std::make_unique<PipeStream>(pipe.to_client, pipe.to_server, 13),
                      std::nullopt);
  EXPECT_EQ(client.progress().sent_bytes, 0u);
  bool is_seen_between = false;
  for (int64_t step = 1; step < 1'000'000 && !client.is_over(); ++step) {
    client.step(step);
    server.step(step);
    const uint64_t received = server.progress().received_bytes;
    EXPECT_LE(received, client.progress().sent_bytes);
    is_seen_between = is_seen_between || (received > 0 && received < plan.bytes);
  }
  EXPECT_TRUE(is_seen_between);
  EXPECT_EQ(client.progress().sent_bytes, plan.bytes);
  EXPECT_EQ(server.progress().received_bytes, plan.bytes);
}

TEST(Perf, ProgressIsOneLine) {
  constexpr int64_t kSecond = 1'000'000'000;
  Plan plan = bulk_plan(Direction::kToServer);
  const Progress before{.sent_bytes = 125'000'000, .received_bytes = 0};
  const Progress now{.sent_bytes = 250'000'000, .received_bytes = uint64_t{1} << 30};
  EXPECT_EQ(progress_text(plan, before, now, kSecond, 3 * kSecond),
            "3 s: 238 MiB sent at 1.00 Gb/s");
  plan.direction = Direction::kBoth;
  EXPECT_EQ(progress_text(plan, before, now, kSecond, 3 * kSecond),
            "3 s: 238 MiB sent at 1.00 Gb/s, 1.00 GiB received at 8.59 Gb/s");
  plan.kind = Kind::kPingPong;
  plan.count = 500;
  EXPECT_EQ(progress_text(plan, {}, {.round_trips = 20}, kSecond, kSecond),
            "1 s: 20 of 500 round trips");
}

TEST(Perf, BulkGoesEachWay) {
  for (const Direction direction : {Direction::kToServer, Direction::kToClient, Direction::kBoth}) {
    Pipe pipe;
    const Plan plan = bulk_plan(direction);
    const auto [client, server] = converse(pipe, plan);
    EXPECT_TRUE(client.is_intact());
    EXPECT_TRUE(server.is_intact());
    EXPECT_EQ(plan.sends_to(Direction::kToServer) ? plan.bytes : 0, server.received.bytes);
    EXPECT_EQ(plan.sends_to(Direction::kToClient) ? plan.bytes : 0, client.received.bytes);
    EXPECT_EQ(client.sent.hash, server.received.hash);
    EXPECT_EQ(server.sent.hash, client.received.hash);
  }
}

TEST(Perf, OneWrongBitIsSeenOnBothSides) {
  Pipe pipe;
  pipe.to_server.flip_at = kPlanBytes + 50'000;
  const auto [client, server] = converse(pipe, bulk_plan(Direction::kToServer));
  EXPECT_FALSE(client.is_intact());
  EXPECT_FALSE(server.is_intact());
  EXPECT_FALSE(client.are_hashes_equal());
}

TEST(Perf, PingPongMeasuresEachRoundTrip) {
  Pipe pipe;
  Plan plan;
  plan.kind = Kind::kPingPong;
  plan.message_bytes = 100;
  plan.count = 50;
  const auto [client, server] = converse(pipe, plan);
  EXPECT_EQ(50u, client.round_trips_ns.size());
  EXPECT_TRUE(client.is_intact());
  EXPECT_EQ(5000u, server.received.bytes);
}

/// Each echo is there at the next pass. The servers are stepped after the clients.
TEST(Perf, ASessionAlwaysHasARequestUnderWay) {
  constexpr size_t kPairs = 8;
  constexpr int64_t kPassNs = 1000;
  Plan plan;
  plan.kind = Kind::kPingPong;
  plan.message_bytes = 10;
  plan.count = 50;
  std::vector<Pipe> pipes(kPairs);
  std::vector<std::unique_ptr<Conversation>> asking, serving;
  for (Pipe& pipe : pipes) {
    asking.push_back(std::make_unique<Conversation>(
        std::make_unique<PipeStream>(pipe.to_server, pipe.to_client, 701), plan));
    serving.push_back(std::make_unique<Conversation>(
        std::make_unique<PipeStream>(pipe.to_client, pipe.to_server, 701), std::nullopt));
  }
  std::vector<Result> results;
  for (int64_t now = kPassNs; now < 1000 * kPassNs && results.size() < kPairs; now += kPassNs) {
    for (const auto& client : asking) {
      if (client->is_complete()) continue;
      client->step(now);
      if (!client->is_complete()) continue;
      results.push_back({.peer = client->peer(),
                         .plan = plan,
                         .outcome = client->outcome(),
                         .started_ns = client->started_ns(),
                         .completed_ns = now});
    }
    for (const auto& server : serving) server->step(now);
  }
  ASSERT_EQ(results.size(), kPairs);
  // The first request leaves one pass after the start.
  const auto elapsed_ns = static_cast<double>(plan.count + 1) * kPassNs;
  EXPECT_DOUBLE_EQ(client_json(results, "pipe")["ping_pong"]["requests_per_s"],
                   1e9 * static_cast<double>(kPairs * plan.count) / elapsed_ns);
}

TEST(Perf, APingPongWaitsForItsNextRoundTripOnly) {
  Pipe pipe;
  Plan plan;
  plan.kind = Kind::kPingPong;
  plan.message_bytes = 100;
  plan.count = 2;
  plan.interval_ns = 3'600'000'000'000;  // longer than this test takes
  Conversation client(std::make_unique<PipeStream>(pipe.to_server, pipe.to_client, 701), plan);
  Conversation server(std::make_unique<PipeStream>(pipe.to_client, pipe.to_server, 13),
                      std::nullopt);
  const int64_t begin = now_ns();
  EXPECT_EQ(client.due_ns(), 0);
  for (int i = 0; i < 1000 && client.progress().round_trips == 0; ++i) {
    EXPECT_EQ(client.due_ns(), 0) << "it waits for an event";
    client.step(begin);
    server.step(begin);
  }
  ASSERT_EQ(client.progress().round_trips, 1u);
  EXPECT_GE(client.due_ns(), begin + plan.interval_ns);
  EXPECT_EQ(server.due_ns(), 0);
  EXPECT_FALSE(client.step(client.due_ns() - 1));
  client.step(client.due_ns());
  EXPECT_EQ(client.due_ns(), 0) << "the second one is under way";
}

TEST(Perf, WaitsUntilTheNextStepIsDue) {
  constexpr int64_t kMs = 1'000'000;
  EXPECT_EQ(wait_ms(0, 7), kWaitMs);
  EXPECT_EQ(wait_ms(7, 7), kWaitMs) << "it was due and found no room";
  EXPECT_EQ(wait_ms(7 + 10 * kMs, 7), 10);
  EXPECT_EQ(wait_ms(8 + 10 * kMs, 7), 11);
  EXPECT_EQ(wait_ms(7 + 1, 7), 1);
  EXPECT_EQ(wait_ms(7 + 3'600'000 * kMs, 7), kWaitMs);
}

TEST(Perf, WhatATransportDidNotTakeAtOnceIsOfferedAgain) {
  Pipe pipe;
  Plan plan;
  plan.kind = Kind::kPingPong;
  plan.message_bytes = 100;
  plan.count = 5;
  EXPECT_TRUE(converse(pipe, plan, true).first.is_intact());
  Pipe other;
  EXPECT_TRUE(converse(other, bulk_plan(Direction::kBoth), true).first.is_intact());
}

TEST(Perf, AStrangerIsRefused) {
  for (const std::string text : {"GET / HTTP/1.0\r\n\r\n", "LYREPERX", ""}) {
    Pipe pipe;
    pipe.to_server.bytes.assign(text.begin(), text.end());
    pipe.to_server.is_finished = true;
    Conversation server(std::make_unique<PipeStream>(pipe.to_client, pipe.to_server, 64),
                        std::nullopt);
    EXPECT_THROW(for (int64_t step = 1; step < 10; ++step) server.step(step), StreamError) << text;
  }
}

TEST(Perf, AMuteStrangerIsNotWaitedForForEver) {
  Pipe pipe;
  Conversation server(std::make_unique<PipeStream>(pipe.to_client, pipe.to_server, 64),
                      std::nullopt);
  server.step(1);
  EXPECT_THROW(server.step(11'000'000'000), StreamError);
}

TEST(Perf, FramesOutOfTurnAreRefused) {
  Pipe pipe;
  Conversation server(std::make_unique<PipeStream>(pipe.to_client, pipe.to_server, 64),
                      std::nullopt);
  const auto plan = encode(bulk_plan(Direction::kToServer));
  pipe.to_server.bytes.insert(pipe.to_server.bytes.end(), plan.begin(), plan.end());
  std::array<uint8_t, kFrameHeaderBytes> trailer{};
  encode(FrameHeader{FrameType::kTrailer, kTotalsBytes}, trailer);
  pipe.to_server.bytes.insert(pipe.to_server.bytes.end(), trailer.begin(), trailer.end());
  EXPECT_THROW(for (int64_t step = 1; step < 10; ++step) server.step(step), StreamError);
}

TEST(PerfProtocol, PlansSurviveTheWire) {
  Plan plan = bulk_plan(Direction::kBoth);
  plan.is_untouched = true;
  plan.duration_ms = 7;
  std::string error;
  const auto copy = decode_plan(encode(plan), error);
  ASSERT_TRUE(copy) << error;
  EXPECT_EQ(encode(plan), encode(*copy));
}

TEST(PerfProtocol, BadPlansAreRefused) {
  const auto refused = [](auto distort) {
    Plan plan = bulk_plan(Direction::kToServer);
    distort(plan);
    std::string error;
    EXPECT_FALSE(decode_plan(encode(plan), error));
    EXPECT_FALSE(error.empty());
  };
  refused([](Plan& plan) { plan.kind = static_cast<Kind>(9); });
  refused([](Plan& plan) { plan.direction = static_cast<Direction>(0); });
  refused([](Plan& plan) { plan.block_bytes = 16; });
  refused([](Plan& plan) { plan.block_bytes = UINT32_MAX; });
  refused([](Plan& plan) { plan.bytes = 0; });
  refused([](Plan& plan) { plan.kind = Kind::kPingPong; });
  std::string error;
  auto other_version = encode(bulk_plan(Direction::kToServer));
  other_version[8] = 9;
  EXPECT_FALSE(decode_plan(other_version, error));
  EXPECT_EQ("it speaks version 9 of lyre perf, we speak 1", error);
}

TEST(PerfPattern, IsTheSameHoweverItIsCut) {
  std::vector<uint8_t> whole(1000);
  fill_pattern(whole, 5, 99);
  for (const size_t piece : {1, 7, 8, 13, 100}) {
    std::vector<uint8_t> parts(whole.size());
    for (size_t at = 0; at < parts.size(); at += piece) {
      const auto part = std::span(parts).subspan(at, std::min(piece, parts.size() - at));
      fill_pattern(part, 5 + at, 99);
      EXPECT_TRUE(is_pattern(part, 5 + at, 99));
    }
    EXPECT_EQ(whole, parts);
  }
}

TEST(PerfPattern, EveryByteCounts) {
  std::vector<uint8_t> bytes(77);
  fill_pattern(bytes, 3, 1);
  for (uint8_t& byte : bytes) {
    byte ^= 1;
    EXPECT_FALSE(is_pattern(bytes, 3, 1));
    byte ^= 1;
  }
  EXPECT_TRUE(is_pattern(bytes, 3, 1));
  EXPECT_FALSE(is_pattern(bytes, 4, 1));
  EXPECT_FALSE(is_pattern(bytes, 3, 2));
}

TEST(PerfHash, IsSha256) {
  Sha256 hash;
  const std::string text = "abc";
  hash.add({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  EXPECT_EQ("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            to_hex(hash.finish()));
}

TEST(PerfReport, PercentilesAreOfTheSortedTimes) {
  std::vector<int64_t> times;
  for (int64_t i = 1000; i > 0; --i) times.push_back(i);
  const Latency latency = latency_of(times);
  EXPECT_EQ(1, latency.min_ns);
  EXPECT_EQ(501, latency.p50_ns);
  EXPECT_EQ(990, latency.p99_ns);
  EXPECT_EQ(999, latency.p999_ns);
  EXPECT_EQ(1000, latency.max_ns);
  EXPECT_EQ(0u, latency_of({}).count);
}

TEST(PerfReport, AddsSessionsUp) {
  Result result;
  result.peer = "10.9.0.2:5201";
  result.plan = bulk_plan(Direction::kToServer);
  result.plan.has_hash = false;
  result.outcome.sent.bytes = result.outcome.peer_received.bytes = 1'250'000'000;
  result.started_ns = 5;
  result.completed_ns = 1'000'000'005;
  EXPECT_EQ(
      "lyre, 2 sessions to 10.9.0.2:5201\n"
      "sent      2.33 GiB (2500000000 bytes) in 1.000 s  20.0 Gb/s  every byte as expected\n",
      client_text({result, result}, "lyre"));
  const auto json = client_json({result, result}, "lyre");
  EXPECT_DOUBLE_EQ(20e9, json["sent"]["bits_per_s"]);
  EXPECT_EQ(1'000'000'000, json["sent"]["duration_ns"]);
  EXPECT_EQ(true, json["sent"]["intact"]);
  result.outcome.peer_received.is_intact = false;
  EXPECT_NE(std::string::npos, client_text({result}, "lyre").find("BYTES DIFFER"));
}

TEST(PerfReport, RequestsASecondAreOfTheWholeTime) {
  Result first;
  first.plan.kind = Kind::kPingPong;
  first.outcome.round_trips_ns = std::vector<int64_t>(30, 10);
  first.started_ns = 1'000'000'000;
  first.completed_ns = 2'000'000'000;
  Result late = first;
  late.started_ns = 1'500'000'000;
  late.completed_ns = 3'000'000'000;
  const auto rate = [](const std::vector<Result>& results) -> double {
    return client_json(results, "lyre")["ping_pong"]["requests_per_s"];
  };
  EXPECT_DOUBLE_EQ(rate({first}), 30);
  EXPECT_DOUBLE_EQ(rate({late, first}), 30);
  first.completed_ns = first.started_ns;
  EXPECT_DOUBLE_EQ(rate({first}), 0);
}

/// As many blocks as the arena has are freed in each round; there are more conversations.
TEST(Turns, WhoComesFirstChanges) {
  constexpr size_t kConversations = 10;
  constexpr size_t kFreedBlocks = 3;
  std::vector<int> blocks(kConversations);
  Turns turns;
  for (size_t round = 0; round < kConversations; ++round) {
    size_t left = kFreedBlocks;
    turns.next_round(kConversations, [&](size_t index) {
      if (left == 0) return;
      --left;
      ++blocks[index];
    });
  }
  EXPECT_EQ(blocks, std::vector<int>(kConversations, kFreedBlocks));
}

}  // namespace
}  // namespace lyre::perf
