// How comms are established, and which connections are refused. Rank 0 connects, rank 1 listens.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "nccl_adapter/abi/telemetry.h"
#include "nccl_adapter/protocol/frame.h"
#include "nccl_adapter/protocol/hello.h"
#include "tests/adapter/link.h"
#include "tests/adapter/raw_peer.h"

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

void send_one_word(Rank& rank, Link& link) {
  uint32_t word = rank.index() == 0 ? 0xfeedu : 0;
  link.finish(rank.index() == 0 ? link.isend(&word, sizeof(word))
                                : link.irecv(&word, sizeof(word)));
  EXPECT_EQ(word, 0xfeedu);
}

using Part = std::function<void(Rank&, Link&)>;

// Rank 1 listens, each rank does its part, and then they establish a comm as usual.
void expect_undisturbed(const Part& caller, const Part& listener) {
  const auto whole = [](const Part& part) {
    return [&part](Rank& rank) {
      Link link(rank, kAbi, Link::Unconnected{});
      link.exchange_handle();
      part(rank, link);
      link.connect();
      send_one_word(rank, link);
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

TEST_F(Handshake, AClosedPortIsARemoteError) {
  expect_ranks({[](Rank& rank) {
                  ::setenv("LYRE_RESUME_SECONDS", "1", 1);
                  Link link(rank, kAbi, Link::Unconnected{});
                  link.exchange_handle();
                  rank.barrier();  // the listener is closed
                  void* comm = nullptr;
                  EXPECT_EQ(connect_until_answered(link, &comm), Result::kRemoteError);
                  EXPECT_EQ(count_logged("cannot connect to host"), 1u) << logged_text();
                  link.close();
                },
                [](Rank& rank) {
                  Link link(rank, kAbi, Link::Unconnected{});
                  link.exchange_handle();
                  link.close();
                  rank.barrier();
                }});
}

TEST_F(Handshake, ClosedListenCommIsARefusal) {
  expect_ranks({[](Rank& rank) {
                  Link link(rank, kAbi, Link::Unconnected{});
                  link.exchange_handle();
                  rank.barrier();
                  void* comm = nullptr;
                  EXPECT_EQ(connect_until_answered(link, &comm), Result::kRemoteError);
                  EXPECT_TRUE(has_logged("no listen comm has that handle")) << logged_text();
                  rank.barrier();
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
                  rank.send(link.handle().data(), link.handle().size());
                  rank.barrier();
                  void* comm = nullptr;
                  until([&] {
                    EXPECT_EQ(link.plugin().accept(other, &comm), Result::kSuccess);
                    return has_logged("no listen comm has that handle");
                  });
                  EXPECT_EQ(comm, nullptr);
                  rank.barrier();
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
    send_one_word(rank, link);
    void* first = link.comm();
    link.connect();  // the same handle buffer, the same listen comm
    EXPECT_NE(link.comm(), first);
    send_one_word(rank, link);
    EXPECT_EQ(rank.index() == 0 ? link.plugin().close_send(first) : link.plugin().close_recv(first),
              Result::kSuccess);
    send_one_word(rank, link);
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
        rank.barrier();
      },
      [](Rank& rank, Link&) { rank.barrier(); });
}

// Where this process shows its comms. A random number ends the name.
std::string telemetry_path() {
  const std::string prefix = nccl_abi::kTelemetryPrefix + std::to_string(::getuid()) + "-" +
                             std::to_string(::getpid()) + "-";
  for (const auto& entry : std::filesystem::directory_iterator(nccl_abi::kTelemetryDirectory)) {
    if (entry.path().filename().string().starts_with(prefix)) return entry.path();
  }
  return "";
}

// The telemetry of this process.
nccl_abi::TelemetryHeader* map_telemetry() {
  const std::string path = telemetry_path();
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* memory = ::mmap(nullptr, nccl_abi::kTelemetryBytes, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  return memory != MAP_FAILED ? static_cast<nccl_abi::TelemetryHeader*>(memory) : nullptr;
}

void expect_one_refusal_in_telemetry() {
  const nccl_abi::TelemetryHeader* header = map_telemetry();
  ASSERT_NE(header, nullptr);
  EXPECT_EQ(header->foreign.load(), 1u);
  EXPECT_TRUE(std::string(header->last_foreign).starts_with("10.77.0.1:")) << header->last_foreign;
}

// Rank 1 closes the connection over which `send` sends, and logs `line`.
void expect_refused(const std::function<void(RawPeer&)>& send, const std::string& line) {
  expect_undisturbed(
      [&](Rank& rank, Link& link) {
        RawPeer peer(daemons().socket(0), link.handle());
        send(peer);
        EXPECT_TRUE(until([&] { return peer.is_closed(); }));
        rank.barrier();
      },
      [&](Rank& rank, Link&) {
        rank.barrier();
        EXPECT_EQ(count_logged(line), 1u) << logged_text();
        EXPECT_TRUE(has_logged("closed a connection from 10.77.0.1:")) << logged_text();
        expect_one_refusal_in_telemetry();
      });
}

void expect_no_hello_in_time(const std::function<void(RawPeer&)>& send) {
  ::setenv("LYRE_HANDSHAKE_TIMEOUT_MS", "300", 1);
  expect_refused(send, "sent no hello in time");
  ::unsetenv("LYRE_HANDSHAKE_TIMEOUT_MS");
}

TEST_F(Handshake, GarbageOnThePortIsRefused) {
  expect_refused([](RawPeer& peer) { peer.send(pattern(1, 5000)); },
                 "does not speak this plugin's protocol");
}

TEST_F(Handshake, OneWrongByteIsEnough) {
  expect_refused(
      [](RawPeer& peer) {
        const uint8_t get = 'G';
        peer.send({&get, 1});
      },
      "does not speak this plugin's protocol");
}

TEST_F(Handshake, ConnectionWithoutAHelloIsRefused) {
  expect_no_hello_in_time([](RawPeer&) {});
}

TEST_F(Handshake, HalfAHelloIsRefused) {
  expect_no_hello_in_time([](RawPeer& peer) {
    uint8_t hello[kHelloBytes];
    encode(nccl_adapter::Hello{}, hello);
    peer.send({hello, 50});
  });
}

Answer answer_of(const RawPeer& peer) {
  const std::span<const uint8_t> received(peer.received());
  Answer answer;
  EXPECT_TRUE(received.size() >= kAnswerBytes && decode(received.first<kAnswerBytes>(), &answer));
  return answer;
}

void expect_answer(RawPeer& peer, AnswerCode code) {
  EXPECT_TRUE(until([&] { return peer.is_closed(); }));
  EXPECT_EQ(peer.received().size(), kAnswerBytes);
  const Answer answer = answer_of(peer);
  EXPECT_EQ(answer.code, code);
  EXPECT_FALSE(answer.text.empty());
}

void expect_welcome(RawPeer& peer) {
  EXPECT_TRUE(until([&] {
    peer.is_closed();
    return peer.received().size() >= kAnswerBytes;
  }));
  EXPECT_EQ(answer_of(peer).code, AnswerCode::kWelcome);
}

TEST_F(Handshake, HelloOfAnotherVersionGetsAnAnswer) {
  expect_refused(
      [](RawPeer& peer) {
        peer.send(nccl_adapter::Hello{.version_min = 9, .version_max = 9});
        expect_answer(peer, AnswerCode::kVersion);
      },
      "protocol versions 9 to 9 meet");
}

TEST_F(Handshake, GuessedNonceIsRefused) {
  expect_refused(
      [](RawPeer& peer) {
        peer.send(nccl_adapter::Hello{.host = "nowhere"});
        expect_answer(peer, AnswerCode::kUnknown);
      },
      "no listen comm has that handle");
}

void* accept_one(Link& link) {
  void* comm = nullptr;
  EXPECT_TRUE(until([&] {
    EXPECT_EQ(link.plugin().accept(link.listen_comm(), &comm), Result::kSuccess);
    return comm != nullptr;
  }));
  return comm;
}

// A peer that has found rank 1's handle, and has sent its hello.
std::unique_ptr<RawPeer> dial(const Link& link, uint16_t index, uint16_t count,
                              uint32_t incarnation = 1) {
  auto peer = std::make_unique<RawPeer>(daemons().socket(0), link.handle());
  peer->send(hello_for(link.handle(), index, count, incarnation));
  return peer;
}

TEST_F(Handshake, AStreamJoinsOnceAndNotTooLate) {
  expect_undisturbed(
      [](Rank& rank, Link& link) {
        const auto first = dial(link, 0, 2);
        expect_welcome(*first);
        expect_answer(*dial(link, 0, 2), AnswerCode::kBadStream);  // replayed
        expect_answer(*dial(link, 2, 2), AnswerCode::kBadStream);
        expect_answer(*dial(link, 0, 3, 2), AnswerCode::kBadStream);
        const auto successor = dial(link, 0, 2, 2);
        expect_welcome(*successor);
        EXPECT_TRUE(until([&] { return first->is_closed(); }));
        rank.barrier();
        rank.barrier();  // the comm is closed
        expect_answer(*dial(link, 1, 2), AnswerCode::kDeparted);
      },
      [](Rank& rank, Link& link) {
        void* comm = accept_one(link);
        rank.barrier();
        EXPECT_EQ(link.plugin().close_recv(comm), Result::kSuccess);
        rank.barrier();
      });
}

// A stream that continues in the middle of a sender's messages must not become a new peer.
TEST_F(Handshake, AStreamOfACommThatWasGivenUpIsTooLate) {
  expect_undisturbed(
      [](Rank& rank, Link& link) {
        const auto first = dial(link, 0, 2);
        expect_welcome(*first);
        rank.barrier();
        rank.barrier();  // the comm is closed, with a request in flight
        expect_answer(*dial(link, 1, 2), AnswerCode::kUnknown);
      },
      [](Rank& rank, Link& link) {
        void* comm = accept_one(link);
        rank.barrier();
        uint8_t byte = 0;
        void* request = nullptr;
        ASSERT_EQ(link.plugin().irecv(comm, {&byte, 1}, &request), Result::kSuccess);
        EXPECT_EQ(link.plugin().close_recv(comm), Result::kSuccess);
        rank.barrier();
      });
}

// Its bytes would not be read, and its sender would wait for ever.
TEST_F(Handshake, AStreamOfACommThatHasFailedIsRefused) {
  expect_undisturbed(
      [](Rank& rank, Link& link) {
        const auto first = dial(link, 0, 2);
        expect_welcome(*first);
        first->send(std::vector<uint8_t>(nccl_adapter::kFrameHeaderBytes, 0xff));
        EXPECT_TRUE(until([&] { return first->is_closed(); }));
        expect_answer(*dial(link, 1, 2), AnswerCode::kUnknown);
        rank.barrier();
      },
      [](Rank& rank, Link& link) {
        void* comm = accept_one(link);
        rank.barrier();
        EXPECT_EQ(link.plugin().close_recv(comm), Result::kSuccess);
      });
}

TEST_F(Handshake, AFrameThatIsNotAllowedEndsItsOwnCommOnly) {
  using nccl_adapter::FrameHeader;
  using nccl_adapter::FrameType;
  const FrameHeader lies[] = {
      {FrameType::kData, 4, 0, 2, 1},              // past the message
      {FrameType::kData, 0xffffffff, 0, 8, 0},     // an impossible length
      {FrameType::kData, 4, 1000, 4, 0},           // a message far ahead
      {FrameType::kData, 4, 0, 1 << 20, 1 << 19},  // more than is allowed without a grant
      {FrameType::kGrant, 0, 0, 0, 0},             // in the wrong direction
  };
  for (const FrameHeader& lie : lies) {
    expect_undisturbed(
        [&](Rank& rank, Link& link) {
          const auto peer = dial(link, 0, 1);
          expect_welcome(*peer);
          uint8_t frame[nccl_adapter::kFrameHeaderBytes + 4] = {};
          encode(lie, std::span<uint8_t, nccl_adapter::kFrameHeaderBytes>(
                          frame, nccl_adapter::kFrameHeaderBytes));
          peer->send(frame);
          EXPECT_TRUE(until([&] { return peer->is_closed(); }));
          rank.barrier();
        },
        [](Rank& rank, Link& link) {
          void* comm = accept_one(link);
          rank.barrier();  // the frame has been processed
          void* request = nullptr;
          ASSERT_EQ(link.plugin().irecv(comm, {nullptr, 0}, &request), Result::kSuccess);
          EXPECT_EQ(link.finish_with_error(request), Result::kRemoteError);
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
        send_one_word(rank, link);
        link.close();
      };
    };
    expect_ranks({body(sender), body(receiver)});
  }
}

}  // namespace
}  // namespace lyre::test
