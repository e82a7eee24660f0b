#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/daemon/control_fixture.h"

// Captures as the control socket gives them, with workers that only listen.
namespace lyre {
namespace {

using CommandKind = worker::Command::Kind;

channel::CaptureRequest capture_request(const char* port = "wire", uint32_t snap_bytes = 96) {
  auto request = make_message<channel::CaptureRequest>(Control::kCapture);
  request.version = channel::kCaptureVersion;
  request.snap_bytes = snap_bytes;
  std::strncpy(request.port, port, sizeof request.port - 1);
  return request;
}

class CaptureTest : public ControlServerTest {
 protected:
  CaptureTest() { open_server(true); }

  void open_server(bool shows_packets) {
    server_.reset();
    ControlOptions wanted = options();
    wanted.shows_packets = shows_packets;
    server_.emplace(io_, mappings_, registry_, facts(), wanted);
    EXPECT_TRUE(server_->open().ok());
  }
  channel::CaptureReply ask(RawClient& client, const channel::CaptureRequest& request) {
    client.send(request);
    run();
    return expect_message<channel::CaptureReply>(client, Control::kCaptured);
  }
  /// The commands of that kind that the worker was told.
  std::vector<worker::Command> told(uint32_t worker, CommandKind kind) {
    std::vector<worker::Command> out;
    for (const worker::Command& command : workers_.posted[worker]) {
      if (command.kind == kind) out.push_back(command);
    }
    return out;
  }
  void answer_end(uint32_t worker, const worker::Command& end) {
    workers_.answers[worker].push_back(
        {.kind = worker::Reply::Kind::kCaptureEnded, .capture = end.capture});
    std::vector<Expulsion> none;
    registry_.poll(none);
  }
  size_t held() { return registry_.captures().held_count(); }
};

TEST_F(CaptureTest, EachWorkerIsToldAndTheToolGetsTheRings) {
  RawClient tool(path_);
  const auto reply = ask(tool, capture_request());
  EXPECT_EQ(reply.error, 0) << reply.text;
  EXPECT_EQ(reply.ring_count, 2u);
  ASSERT_EQ(tool.descriptors().size(), 1u);
  struct stat memory {};
  ASSERT_EQ(::fstat(tool.descriptors()[0].get(), &memory), 0);
  EXPECT_EQ(static_cast<size_t>(memory.st_size), 2 * sizeof(channel::CaptureRing));
  EXPECT_GE(static_cast<size_t>(memory.st_blocks) * 512, 2 * sizeof(channel::CaptureRing))
      << "no page is left for a worker to allocate";
  for (uint32_t i = 0; i < 2; ++i) {
    const auto begins = told(i, CommandKind::kBeginCapture);
    ASSERT_EQ(begins.size(), 1u);
    EXPECT_EQ(begins[0].port, 0u);
    // What the worker's part writes is in the ring of that number.
    const Nanos now = seconds(5);
    const worker::ClientMemory clients;
    begins[0].capture->begin({.now = &now, .unix_offset_ns = 0, .clients = &clients});
  }
  void* mapped = ::mmap(nullptr, 2 * sizeof(channel::CaptureRing), PROT_READ | PROT_WRITE,
                        MAP_SHARED, tool.descriptors()[0].get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(::ftruncate(tool.descriptors()[0].get(), 0), -1) << "the size is sealed";
  ::munmap(mapped, 2 * sizeof(channel::CaptureRing));
}

TEST_F(CaptureTest, EndsWithItsConnectionAndIsFreedWhenEachWorkerHasAnswered) {
  RawClient tool(path_);
  EXPECT_EQ(ask(tool, capture_request()).error, 0);
  EXPECT_EQ(held(), 1u);
  tool.hang_up();
  run();
  EXPECT_EQ(held(), 1u) << "workers may write to it";
  for (uint32_t i = 0; i < 2; ++i) {
    const auto ends = told(i, CommandKind::kEndCapture);
    ASSERT_EQ(ends.size(), 1u);
    EXPECT_EQ(ends[0].capture, told(i, CommandKind::kBeginCapture)[0].capture);
    answer_end(i, ends[0]);
    EXPECT_EQ(held(), i == 0 ? 1u : 0u);
  }
  expect_still_serving();
}

TEST_F(CaptureTest, APortHasOneAtATimeAndTheNextNeedNotWaitForTheWorkers) {
  RawClient first(path_), second(path_);
  EXPECT_EQ(ask(first, capture_request()).error, 0);
  const auto refused = ask(second, capture_request());
  EXPECT_EQ(refused.error, EBUSY);
  EXPECT_STREQ(refused.text, "the port is captured already: one at a time");
  EXPECT_TRUE(second.descriptors().empty());
  first.hang_up();
  run();
  EXPECT_EQ(ask(second, capture_request()).error, 0);
  EXPECT_EQ(held(), 2u);
  // The workers hear of them in order, so the port has the second one.
  EXPECT_EQ(workers_.posted[0].back().kind, CommandKind::kBeginCapture);
  EXPECT_NE(told(0, CommandKind::kBeginCapture)[0].capture,
            told(0, CommandKind::kBeginCapture)[1].capture);
}

TEST_F(CaptureTest, WorkersThatDoNotAnswerLimitTheMemoryThatIsHeld) {
  for (uint32_t i = 0; i < worker::kCapturesMax; ++i) {
    RawClient tool(path_);
    ASSERT_EQ(ask(tool, capture_request()).error, 0) << i;
    tool.hang_up();
    run();
  }
  RawClient tool(path_);
  EXPECT_EQ(ask(tool, capture_request()).error, EBUSY);
  EXPECT_EQ(held(), worker::kCapturesMax);
}

TEST_F(CaptureTest, AnUnknownPortIsRefusedWithTheKnownOnes) {
  RawClient tool(path_);
  const auto reply = ask(tool, capture_request("eth9"));
  EXPECT_EQ(reply.error, ENOENT);
  EXPECT_STREQ(reply.text, "there is no port 'eth9', but wire");
  EXPECT_EQ(ask(tool, capture_request()).error, 0) << "the connection goes on";
}

// The name goes into the log.
TEST_F(CaptureTest, AnUnknownPortHasNoControlCharacters) {
  RawClient tool(path_);
  const auto reply = ask(tool, capture_request("a\x1b[2J\n."));
  EXPECT_STREQ(reply.text, "there is no port 'a?[2J?.', but wire");
}

TEST_F(CaptureTest, TheSocketOfADomainShowsNoPackets) {
  open_server(false);
  RawClient tool(path_);
  const auto reply = ask(tool, capture_request());
  EXPECT_EQ(reply.error, EPERM);
  EXPECT_EQ(held(), 0u);
  EXPECT_TRUE(told(0, CommandKind::kBeginCapture).empty());
}

TEST_F(CaptureTest, AConnectionHasAContextOrACapture) {
  RawClient tool(path_);
  EXPECT_EQ(ask(tool, capture_request()).error, 0);
  tool.send(capture_request());
  run();
  expect_goodbye(tool, "a capture beside something else");
  RawClient other(path_);
  EXPECT_EQ(ask(other, capture_request()).error, 0);
  other.send(attach_request());
  run();
  expect_goodbye(other, "a second attach on one connection");
  RawClient client(path_);
  client.send(attach_request());
  run();
  expect_message<channel::AttachReply>(client, Control::kAttached);
  client.send(capture_request());
  run();
  expect_goodbye(client, "a capture beside something else");
}

TEST_F(CaptureTest, RequestsAreChecked) {
  for (const uint32_t bytes : {0u, channel::kSnapBytesMax + 1}) {
    RawClient tool(path_);
    tool.send(capture_request("wire", bytes));
    run();
    expect_goodbye(tool, "a capture of " + std::to_string(bytes) +
                             " bytes of each packet, where 1 to 262144 are allowed");
  }
  RawClient tool(path_);
  auto request = capture_request();
  ++request.version;
  tool.send(request);
  run();
  expect_goodbye(tool,
                 "captures have version 1 here, not 2: use the `lyre` that was installed "
                 "with the daemon");
  RawClient unended(path_);
  request = capture_request();
  std::memset(request.port, 'x', sizeof request.port);
  EXPECT_EQ(ask(unended, request).error, ENOENT);
  expect_still_serving();
}

TEST_F(CaptureTest, ACaptureMayLastLongerThanAnAttachMayTake) {
  timeout_ = millis(1);
  open_server(true);
  RawClient tool(path_);
  EXPECT_EQ(ask(tool, capture_request()).error, 0);
  RawClient idle(path_);
  EXPECT_TRUE(run_until([&] { return server_->counters().idle == 1; }));
  EXPECT_EQ(server_->connection_count(), 1u);
}

}  // namespace
}  // namespace lyre
