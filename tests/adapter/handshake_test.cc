// How comms come to be, and who is kept out. Rank 0 connects, rank 1 listens.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "nccl_adapter/abi/telemetry.h"
#include "nccl_adapter/protocol/frame.h"
#include "nccl_adapter/protocol/hello.h"
#include "tests/adapter/link.h"
#include "tests/adapter/stranger.h"

namespace lyre::test {
namespace {

using nccl_adapter::Answer;
using nccl_adapter::AnswerCode;
using nccl_adapter::kAnswerBytes;
using nccl_adapter::kHelloBytes;

constexpr int kAbi = 11;

class Handshake : public ::testing::Test {
 protected:
  void SetUp() override { daemons(); }
};

void say_one_word(Rank& rank, Link& link) {
  uint32_t word = rank.index() == 0 ? 0xfeedu : 0;
  link.finish(rank.index() == 0 ? link.isend(&word, sizeof(word))
                                : link.irecv(&word, sizeof(word)));
  EXPECT_EQ(word, 0xfeedu);
}

using Part = std::function<void(Rank&, Link&)>;

// Rank 1 listens, each rank does its part, and then they meet as if nothing had been.
void expect_undisturbed(const Part& caller, const Part& listener) {
  const auto whole = [](const Part& part) {
    return [&part](Rank& rank) {
      Link link(rank, kAbi, Link::Unconnected{});
      link.exchange_handle();
      part(rank, link);
      link.connect();
      say_one_word(rank, link);
      link.close();
    };
  };
  expect_ranks({whole(caller), whole(listener)});
}

Result connect_until_answered(Link& link, void** comm) {
  Result result = Result::kSuccess;
  until([&] {
    result = link.plugin().connect(0, link.handle().data(), comm);
    return result != Result::kSuccess || *comm != nullptr;
  });
  return result;
}

void expect_refused_handle(const HandleBuffer& handle, Result expected, const std::string& line) {
  expect_ranks({[&](Rank& rank) {
    Link link(rank, kAbi, Link::Unconnected{});
    HandleBuffer copy = handle;
    void* comm = &copy;
    EXPECT_EQ(link.plugin().connect(0, copy.data(), &comm), expected);
    EXPECT_EQ(comm, nullptr);
    EXPECT_EQ(count_logged(line), 1u) << logged_text();
    link.close();
  }});
}

TEST_F(Handshake, HandleOfNcclsOwnSocketsIsNamed) {
  HandleBuffer handle{};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(4711);
  inet_pton(AF_INET, "192.0.2.7", &address.sin_addr);
  std::memcpy(handle.data(), &address, sizeof(address));
  expect_refused_handle(handle, Result::kInvalidUsage,
                        "does not use Lyre: its handle is from NCCL's own sockets at "
                        "192.0.2.7:4711");
}

TEST_F(Handshake, ForeignHandleIsRefused) {
  HandleBuffer handle;
  handle.fill(0xee);
  expect_refused_handle(handle, Result::kInvalidUsage, "starts with ee ee");
}

TEST_F(Handshake, HandleOfAnotherVersionIsRefusedAndNamesTheHost) {
  HandleBuffer handle;
  encode(nccl_adapter::Handle{.version_min = 7, .version_max = 9, .pid = 12, .host = "node7"},
         handle);
  expect_refused_handle(handle, Result::kInvalidUsage, "node7, process 12, speaks versions 7 to 9");
}

TEST_F(Handshake, DamagedHandleIsRefused) {
  HandleBuffer handle;
  encode(nccl_adapter::Handle{.port = 80, .host = "node7"}, handle);
  handle[12] ^= 1;
  expect_refused_handle(handle, Result::kInvalidArgument, "damaged");
}

TEST_F(Handshake, HandleNamesHostProcessAndAddress) {
  expect_ranks({[](Rank&) {},
                [](Rank& rank) {
                  Link link(rank, kAbi, Link::Unconnected{});
                  link.exchange_handle();
                  const nccl_adapter::Handle handle = read_handle(link.handle());
                  EXPECT_EQ(handle.pid, static_cast<uint32_t>(::getpid()));
                  EXPECT_NE(handle.port, 0);
                  EXPECT_FALSE(handle.host.empty());
                  link.close();
                }});
}

TEST_F(Handshake, NobodyAtThePortIsARemoteError) {
  expect_ranks({[](Rank& rank) {
                  ::setenv("LYRE_RESUME_SECONDS", "1", 1);
                  Link link(rank, kAbi, Link::Unconnected{});
                  link.exchange_handle();
                  rank.meet();  // the listener is gone
                  void* comm = nullptr;
                  EXPECT_EQ(connect_until_answered(link, &comm), Result::kRemoteError);
                  EXPECT_EQ(count_logged("cannot connect to host"), 1u) << logged_text();
                  link.close();
                },
                [](Rank& rank) {
                  Link link(rank, kAbi, Link::Unconnected{});
                  link.exchange_handle();
                  link.close();
                  rank.meet();
                }});
}

TEST_F(Handshake, ClosedListenCommIsARefusal) {
  expect_ranks({[](Rank& rank) {
                  Link link(rank, kAbi, Link::Unconnected{});
                  link.exchange_handle();
                  rank.meet();
                  void* comm = nullptr;
                  EXPECT_EQ(connect_until_answered(link, &comm), Result::kRemoteError);
                  EXPECT_TRUE(has_logged("nobody listens under that handle")) << logged_text();
                  rank.meet();
                  link.close();
                },
                [](Rank& rank) {
                  Link link(rank, kAbi, Link::Unconnected{});
                  void* other = nullptr;  // keeps the port open
                  HandleBuffer unused;
                  ASSERT_EQ(link.plugin().listen(0, unused.data(), &other), Result::kSuccess);
                  void* listening = nullptr;
                  ASSERT_EQ(link.plugin().listen(0, link.handle().data(), &listening),
                            Result::kSuccess);
                  ASSERT_EQ(link.plugin().close_listen(listening), Result::kSuccess);
                  rank.tell(link.handle().data(), link.handle().size());
                  rank.meet();
                  void* comm = nullptr;
                  until([&] {
                    EXPECT_EQ(link.plugin().accept(other, &comm), Result::kSuccess);
                    return has_logged("nobody listens under that handle");
                  });
                  EXPECT_EQ(comm, nullptr);
                  rank.meet();
                  link.close();
                }});
}

TEST_F(Handshake, ListenCommsShareOnePort) {
  expect_ranks({[](Rank&) {},
                [](Rank& rank) {
                  Link link(rank, kAbi, Link::Unconnected{});
                  HandleBuffer handles[2];
                  for (HandleBuffer& handle : handles) {
                    void* listening = nullptr;
                    ASSERT_EQ(link.plugin().listen(0, handle.data(), &listening), Result::kSuccess);
                  }
                  EXPECT_EQ(read_handle(handles[0]).port, read_handle(handles[1]).port);
                  EXPECT_NE(read_handle(handles[0]).nonce, read_handle(handles[1]).nonce);
                  link.close();
                }});
}

TEST_F(Handshake, OneListenGivesSeveralComms) {
  const RankBody body = [](Rank& rank) {
    Link link(rank, kAbi);
    say_one_word(rank, link);
    void* first = link.comm();
    link.connect();  // the same handle buffer, the same listen comm
    EXPECT_NE(link.comm(), first);
    say_one_word(rank, link);
    EXPECT_EQ(rank.index() == 0 ? link.plugin().close_send(first) : link.plugin().close_recv(first),
              Result::kSuccess);
    say_one_word(rank, link);
    link.close();
  };
  expect_ranks({body, body});
}

TEST_F(Handshake, ConnectNeverBlocksOnAPeerThatDoesNotAccept) {
  expect_undisturbed(
      [](Rank& rank, Link& link) {
        void* comm = nullptr;
        for (int i = 0; i < 1000; ++i) {
          ASSERT_EQ(link.plugin().connect(0, link.handle().data(), &comm), Result::kSuccess);
          ASSERT_EQ(comm, nullptr);
        }
        rank.meet();
      },
      [](Rank& rank, Link&) { rank.meet(); });
}

// What this process shows to `lyre comms`.
nccl_abi::TelemetryHeader* map_telemetry() {
  const std::string path = std::string(nccl_abi::kTelemetryDirectory) + "/" +
                           nccl_abi::kTelemetryPrefix + std::to_string(::getuid()) + "-" +
                           std::to_string(::getpid()) + "-0";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* memory = ::mmap(nullptr, nccl_abi::kTelemetryBytes, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  return memory != MAP_FAILED ? static_cast<nccl_abi::TelemetryHeader*>(memory) : nullptr;
}

void expect_one_stranger_shown() {
  const nccl_abi::TelemetryHeader* header = map_telemetry();
  ASSERT_NE(header, nullptr);
  EXPECT_EQ(header->strangers.load(), 1u);
  EXPECT_TRUE(std::string(header->last_stranger).starts_with("10.77.0.1:"))
      << header->last_stranger;
}

// Rank 1 sees `stranger` out, and says so.
void expect_shown_out(const std::function<void(Stranger&)>& stranger, const std::string& line) {
  ::setenv("LYRE_HANDSHAKE_TIMEOUT_MS", "300", 1);
  expect_undisturbed(
      [&](Rank& rank, Link& link) {
        Stranger visitor(daemons().socket(0), link.handle());
        stranger(visitor);
        EXPECT_TRUE(until([&] { return visitor.is_shown_out(); }));
        rank.meet();
      },
      [&](Rank& rank, Link&) {
        rank.meet();
        EXPECT_EQ(count_logged(line), 1u) << logged_text();
        EXPECT_TRUE(has_logged("closed a connection from 10.77.0.1:")) << logged_text();
        expect_one_stranger_shown();
      });
  ::unsetenv("LYRE_HANDSHAKE_TIMEOUT_MS");
}

TEST_F(Handshake, GarbageOnThePortIsShownOut) {
  expect_shown_out([](Stranger& visitor) { visitor.say(pattern(1, 5000)); },
                   "does not speak this plugin's protocol");
}

TEST_F(Handshake, OneWrongByteIsEnough) {
  expect_shown_out(
      [](Stranger& visitor) {
        const uint8_t get = 'G';
        visitor.say({&get, 1});
      },
      "does not speak this plugin's protocol");
}

TEST_F(Handshake, SilentScannerIsShownOut) {
  expect_shown_out([](Stranger&) {}, "did not say in time what it wants");
}

TEST_F(Handshake, HalfAHelloIsShownOut) {
  expect_shown_out(
      [](Stranger& visitor) {
        uint8_t hello[kHelloBytes];
        encode(nccl_adapter::Hello{}, hello);
        visitor.say({hello, 50});
      },
      "did not say in time what it wants");
}

Answer answer_of(const Stranger& visitor) {
  const std::span<const uint8_t> heard(visitor.heard());
  Answer answer;
  EXPECT_TRUE(heard.size() >= kAnswerBytes && decode(heard.first<kAnswerBytes>(), &answer));
  return answer;
}

void expect_answer(Stranger& visitor, AnswerCode code) {
  EXPECT_TRUE(until([&] { return visitor.is_shown_out(); }));
  EXPECT_EQ(visitor.heard().size(), kAnswerBytes);
  const Answer answer = answer_of(visitor);
  EXPECT_EQ(answer.code, code);
  EXPECT_FALSE(answer.text.empty());
}

void expect_welcome(Stranger& visitor) {
  EXPECT_TRUE(until([&] {
    visitor.is_shown_out();
    return visitor.heard().size() >= kAnswerBytes;
  }));
  EXPECT_EQ(answer_of(visitor).code, AnswerCode::kWelcome);
}

TEST_F(Handshake, HelloOfAnotherVersionGetsAnAnswer) {
  expect_shown_out(
      [](Stranger& visitor) {
        visitor.say(nccl_adapter::Hello{.version_min = 9, .version_max = 9});
        expect_answer(visitor, AnswerCode::kVersion);
      },
      "protocol versions 9 to 9 meet");
}

TEST_F(Handshake, GuessedNonceIsRefused) {
  expect_shown_out(
      [](Stranger& visitor) {
        visitor.say(nccl_adapter::Hello{.host = "nowhere"});
        expect_answer(visitor, AnswerCode::kUnknown);
      },
      "nobody listens under that handle");
}

void* accept_one(Link& link) {
  void* comm = nullptr;
  EXPECT_TRUE(until([&] {
    EXPECT_EQ(link.plugin().accept(link.listen_comm(), &comm), Result::kSuccess);
    return comm != nullptr;
  }));
  return comm;
}

// Somebody who says what a peer would say that found rank 1's handle.
std::unique_ptr<Stranger> knock(const Link& link, uint16_t index, uint16_t count,
                                uint32_t incarnation = 1) {
  auto visitor = std::make_unique<Stranger>(daemons().socket(0), link.handle());
  visitor->say(hello_for(link.handle(), index, count, incarnation));
  return visitor;
}

TEST_F(Handshake, AStreamJoinsOnceAndNotTooLate) {
  expect_undisturbed(
      [](Rank& rank, Link& link) {
        const auto first = knock(link, 0, 2);
        expect_welcome(*first);
        expect_answer(*knock(link, 0, 2), AnswerCode::kBadStream);  // replayed
        expect_answer(*knock(link, 2, 2), AnswerCode::kBadStream);
        expect_answer(*knock(link, 0, 3, 2), AnswerCode::kBadStream);
        const auto successor = knock(link, 0, 2, 2);
        expect_welcome(*successor);
        EXPECT_TRUE(until([&] { return first->is_shown_out(); }));
        rank.meet();
        rank.meet();  // the comm is closed
        expect_answer(*knock(link, 1, 2), AnswerCode::kDeparted);
      },
      [](Rank& rank, Link& link) {
        void* comm = accept_one(link);
        rank.meet();
        EXPECT_EQ(link.plugin().close_recv(comm), Result::kSuccess);
        rank.meet();
      });
}

// A sender that comes back with the middle of its messages must not be a new peer.
TEST_F(Handshake, AStreamOfACommThatWasGivenUpIsTooLate) {
  expect_undisturbed(
      [](Rank& rank, Link& link) {
        const auto first = knock(link, 0, 2);
        expect_welcome(*first);
        rank.meet();
        rank.meet();  // the comm is closed, with a request in flight
        expect_answer(*knock(link, 1, 2), AnswerCode::kUnknown);
      },
      [](Rank& rank, Link& link) {
        void* comm = accept_one(link);
        rank.meet();
        uint8_t byte = 0;
        void* request = nullptr;
        ASSERT_EQ(link.plugin().irecv(comm, {&byte, 1}, &request), Result::kSuccess);
        EXPECT_EQ(link.plugin().close_recv(comm), Result::kSuccess);
        rank.meet();
      });
}

// Nobody would read what it brings, and its sender would wait as long as it lives.
TEST_F(Handshake, AStreamOfACommThatHasFailedIsRefused) {
  expect_undisturbed(
      [](Rank& rank, Link& link) {
        const auto first = knock(link, 0, 2);
        expect_welcome(*first);
        first->say(std::vector<uint8_t>(nccl_adapter::kFrameHeaderBytes, 0xff));
        EXPECT_TRUE(until([&] { return first->is_shown_out(); }));
        expect_answer(*knock(link, 1, 2), AnswerCode::kUnknown);
        rank.meet();
      },
      [](Rank& rank, Link& link) {
        void* comm = accept_one(link);
        rank.meet();
        EXPECT_EQ(link.plugin().close_recv(comm), Result::kSuccess);
      });
}

TEST_F(Handshake, AStreamThatLiesEndsItsOwnCommOnly) {
  using nccl_adapter::FrameHeader;
  using nccl_adapter::FrameType;
  const FrameHeader lies[] = {
      {FrameType::kData, 4, 0, 2, 1},              // past the message
      {FrameType::kData, 0xffffffff, 0, 8, 0},     // a length that lies
      {FrameType::kData, 4, 1000, 4, 0},           // a message of the far future
      {FrameType::kData, 4, 0, 1 << 20, 1 << 19},  // more than may come unasked
      {FrameType::kGrant, 0, 0, 0, 0},             // the wrong way round
  };
  for (const FrameHeader& lie : lies) {
    expect_undisturbed(
        [&](Rank& rank, Link& link) {
          const auto visitor = knock(link, 0, 1);
          expect_welcome(*visitor);
          uint8_t frame[nccl_adapter::kFrameHeaderBytes + 4] = {};
          encode(lie, std::span<uint8_t, nccl_adapter::kFrameHeaderBytes>(
                          frame, nccl_adapter::kFrameHeaderBytes));
          visitor->say(frame);
          EXPECT_TRUE(until([&] { return visitor->is_shown_out(); }));
          rank.meet();
        },
        [](Rank& rank, Link& link) {
          void* comm = accept_one(link);
          rank.meet();  // the lie was heard
          void* request = nullptr;
          ASSERT_EQ(link.plugin().irecv(comm, {nullptr, 0}, &request), Result::kSuccess);
          EXPECT_EQ(link.finish_badly(request), Result::kRemoteError);
          EXPECT_EQ(count_logged("the peer broke the protocol"), 1u) << logged_text();
          EXPECT_EQ(link.plugin().close_recv(comm), Result::kSuccess);
        });
  }
}

TEST_F(Handshake, TwoAbiVersionsTalkToEachOther) {
  for (const auto& [sender, receiver] : {std::pair{8, 12}, {12, 8}, {9, 11}, {10, 8}}) {
    const auto body = [](int abi) {
      return [abi](Rank& rank) {
        Link link(rank, abi);
        say_one_word(rank, link);
        link.close();
      };
    };
    expect_ranks({body(sender), body(receiver)});
  }
}

}  // namespace
}  // namespace lyre::test
