#include "daemon/control/control_server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "daemon/base/watch.h"
#include "tests/unit/daemon/captured_log.h"
#include "tests/unit/daemon/control_fixture.h"

namespace lyre {
namespace {

TEST_F(ControlServerTest, AttachGivesAllDescriptorsInOrder) {
  RawClient client(path_);
  client.send(attach_request());
  run();
  const auto reply = expect_message<channel::AttachReply>(client, Control::kAttached);
  EXPECT_EQ(reply.error, 0);
  EXPECT_EQ(reply.worker_count, 2u);
  EXPECT_EQ(reply.lends, 1u);
  EXPECT_EQ(reply.port_count, 1u);
  EXPECT_STREQ(reply.ports[0].name, "wire");
  EXPECT_EQ(reply.pool_bytes[1], 4096u);
  ASSERT_EQ(client.descriptors().size(), 3u + 2u + 2u);
  struct stat memory {};
  ASSERT_EQ(::fstat(client.descriptors()[0].get(), &memory), 0);
  EXPECT_EQ(static_cast<uint64_t>(memory.st_size), reply.context_bytes);
  const uint64_t one = 1;
  EXPECT_LT(::write(client.descriptors()[2].get(), &one, sizeof one), 0);  // doorbells: read-only
  EXPECT_EQ(::write(client.descriptors()[3].get(), &one, sizeof one), 8);  // a worker's doorbell
  EXPECT_EQ(registry_.attached_count(), 1u);
}

TEST_F(ControlServerTest, InfoMayBeAskedAgain) {
  RawClient client(path_);
  for (int i = 0; i < 3; ++i) {
    client.send(make_message<channel::InfoRequest>(Control::kInfo));
    run();
    const auto reply = expect_message<channel::InfoReply>(client, Control::kInfoReply);
    EXPECT_EQ(reply.stats_bytes, 4096u);
  }
  EXPECT_EQ(client.descriptors().size(), 3u);
  EXPECT_EQ(registry_.attached_count(), 0u);
}

TEST_F(ControlServerTest, HangUpDetaches) {
  RawClient client(path_);
  client.send(attach_request());
  run();
  client.hang_up();
  run();
  EXPECT_EQ(registry_.attached_count(), 0u);
  EXPECT_EQ(registry_.held_count(), 1u);
  EXPECT_EQ(workers_.posted[0].back().kind, worker::Command::Kind::kDetach);
  EXPECT_EQ(server_->connection_count(), 0u);
}

TEST_F(ControlServerTest, HangUpBeforeTheAnswerIsRead) {
  RawClient client(path_);
  client.send(attach_request());
  client.hang_up();
  run();
  EXPECT_EQ(registry_.attached_count(), 0u);
  EXPECT_EQ(server_->connection_count(), 0u);
  expect_still_serving();
}

TEST_F(ControlServerTest, MalformedRequestsEndTheirClientOnly) {
  auto with = [](auto change) {
    channel::AttachRequest request = attach_request();
    change(request);
    return request;
  };
  const std::pair<channel::AttachRequest, std::string> cases[] = {
      {with([](auto& r) { r.header.magic = 1; }), "a request with a wrong magic"},
      {with([](auto& r) { r.header.bytes = 1u << 31; }),
       "a request of 96 bytes that claims 2147483648"},
      {with([](auto& r) { r.header.type = static_cast<Control>(77); }),
       "a request of unknown type 77"},
      {with([](auto& r) { r.header.type = Control::kAttached; }), "a request of unknown type 2"},
      {with([](auto& r) { r.header.type = Control::kInfo; }),
       "a request of 96 bytes where 16 are due"},
      {with([](auto& r) { r.reserved = 1; }), "a reserved field that is not zero"},
  };
  static_assert(sizeof(channel::AttachRequest) == 96);
  uint64_t count = 0;
  for (const auto& [request, text] : cases) {
    RawClient client(path_);
    client.send(request);
    run();
    expect_goodbye(client, text);
    EXPECT_EQ(server_->counters().malformed, ++count);
  }
  EXPECT_EQ(registry_.held_count(), 0u);
  expect_still_serving();
}

TEST_F(ControlServerTest, EveryTruncationIsRefused) {
  const channel::AttachRequest request = attach_request();
  for (size_t bytes = 1; bytes < sizeof request; ++bytes) {
    RawClient client(path_);
    client.send_bytes(bytes_of(request).first(bytes));
    run();
    const auto goodbye = expect_message<channel::Goodbye>(client, Control::kGoodbye);
    EXPECT_NE(goodbye.text[0], '\0');
  }
  EXPECT_EQ(registry_.held_count(), 0u);
  expect_still_serving();
}

TEST_F(ControlServerTest, HugeRequestIsRefused) {
  RawClient client(path_);
  client.send_bytes(std::vector<uint8_t>(100'000, 0x5a));
  run();
  expect_goodbye(client, "a request that is too long");
}

/// A TCP connection on loopback whose close() waits an hour for a peer that does not read.
OwnedFd socket_that_lingers(const OwnedFd& listener) {
  sockaddr_in address{};
  socklen_t bytes = sizeof address;
  EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  OwnedFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
  const linger hour{.l_onoff = 1, .l_linger = 3600};
  EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &hour, sizeof hour), 0);
  const std::vector<uint8_t> text(1 << 20);
  while (::send(socket.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  return socket;
}

/// Its close() would have stopped the control thread, and the watchdog the daemon.
TEST_F(ControlServerTest, DescriptorOfARefusedRequestIsClosedElsewhere) {
  const OwnedFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  RawClient client(path_);
  client.send_with(std::array<uint8_t, 600>{}, {socket_that_lingers(listener).get()});
  run();
  expect_goodbye(client, "a request that is too long");
  expect_still_serving();
}

TEST_F(ControlServerTest, HugeArenaIsAnswered) {
  RawClient client(path_);
  channel::AttachRequest request = attach_request();
  for (const uint64_t bytes : {UINT64_MAX, UINT64_MAX - 4095, uint64_t{1} << 63}) {
    request.arena_bytes = bytes;
    client.send(request);
    run();
    EXPECT_EQ(expect_message<channel::AttachReply>(client, Control::kAttached).error, EINVAL);
  }
  EXPECT_EQ(registry_.held_count(), 0u);
}

TEST_F(ControlServerTest, TooManyContextsAreAnswered) {
  std::vector<RawClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back(path_);
    clients.back().send(attach_request());
    run();
    const auto reply = expect_message<channel::AttachReply>(clients.back(), Control::kAttached);
    EXPECT_EQ(reply.error, i < 4 ? 0 : EUSERS);
  }
}

TEST_F(ControlServerTest, SecondAttachOnOneConnectionIsRefused) {
  RawClient client(path_);
  client.send(attach_request());
  client.send(attach_request());
  run();
  EXPECT_EQ(expect_message<channel::AttachReply>(client, Control::kAttached).error, 0);
  expect_goodbye(client, "a second attach on one connection");
  EXPECT_EQ(registry_.attached_count(), 0u);
}

size_t open_descriptors() {
  size_t count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

TEST_F(ControlServerTest, FloodOfDescriptorsLeavesNone) {
  const size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    RawClient client(path_);
    const std::vector<int> flood(253, reader_.get());
    ASSERT_TRUE(send_packet(client.fd(), bytes_of(attach_request()), flood).ok());
    run();
    expect_goodbye(client, "descriptors that are not allowed");
    EXPECT_TRUE(run_until([this] { return closer_->waiting_count(::geteuid()) == 0; }));
  }
  EXPECT_TRUE(run_until([this] { return closer_->thread_count() == 0; }));
  EXPECT_LE(open_descriptors(), before);  // a thread of an earlier test may have closed one
  expect_still_serving();
}

TEST_F(ControlServerTest, ClientThatNeverReadsIsDropped) {
  RawClient client(path_);
  for (int i = 0; i < 10'000 && server_->connection_count() + i > 0; ++i) {
    const auto request = make_message<channel::InfoRequest>(Control::kInfo);
    if (::send(client.fd(), &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
    run();
  }
  EXPECT_EQ(server_->connection_count(), 0u);
  expect_still_serving();
}

TEST_F(ControlServerTest, TooManyConnectionsAreToldSo) {
  std::vector<RawClient> clients;
  for (int i = 0; i < 8; ++i) clients.emplace_back(path_);
  run();
  RawClient late(path_);
  run();
  expect_goodbye(late, "too many connections: all 8 of the control socket are in use");
  EXPECT_EQ(server_->counters().refused, 1u);
  clients.pop_back();
  run();
  expect_still_serving();
}

// Two users could take all connections, and root's `lyre status` and reloads were refused.
TEST_F(ControlServerTest, ConnectionsAreKeptForOperators) {
  server_.reset();
  ControlOptions kept = options();
  kept.operators = {::geteuid()};
  server_.emplace(io_, mappings_, registry_, facts(), kept);
  ASSERT_TRUE(server_->open().ok());
  std::vector<RawClient> clients;
  for (uint32_t i = 0; i < kept.connections_max; ++i) clients.emplace_back(path_);
  run();
  expect_still_serving();
  for (uint32_t i = 0; i < kOperatorConnections; ++i) clients.emplace_back(path_);
  run();
  EXPECT_EQ(server_->counters().refused, 0u);
  RawClient late(path_);
  run();
  expect_goodbye(late, "too many connections: all 24 of the control socket are in use");
}

TEST(ControlOptions, RootAndTheDaemonsUserAreOperators) {
  EXPECT_EQ(ControlOptions{}.operators, (std::vector<uint32_t>{0, ::geteuid()}));
}

TEST_F(ControlServerTest, ExpelledClientLearnsWhy) {
  RawClient client(path_);
  client.send(attach_request());
  run();
  expect_message<channel::AttachReply>(client, Control::kAttached);
  workers_.answer(1, worker::Reply::Kind::kExpelled, 0, "send outside of its region");
  std::vector<Expulsion> expulsions;
  registry_.poll(expulsions);
  ASSERT_EQ(expulsions.size(), 1u);
  server_->expel(expulsions[0]);
  expect_goodbye(client, "send outside of its region");
  EXPECT_EQ(registry_.attached_count(), 0u);
}

// 384 lines of a job that crashed and started again were before it.
TEST_F(ControlServerTest, AnExpulsionIsLoggedAlsoWhereManyClientsAttached) {
  server_.reset();
  ControlOptions bounded = options();
  bounded.log_lines_per_minute_max = 8;
  server_.emplace(io_, mappings_, registry_, facts(), bounded);
  ASSERT_TRUE(server_->open().ok());
  const CapturedLog log;
  RawClient client(path_);
  client.send(attach_request());
  run();
  expect_message<channel::AttachReply>(client, Control::kAttached);
  for (int i = 0; i < 5; ++i) expect_still_serving();
  server_->expel({.context = 0, .reason = "send outside of its region"});
  EXPECT_TRUE(log.has("disconnected: send outside of its region")) << log.text();
}

// A Goodbye would tell clients that they were expelled: they would not attach to the next daemon.
TEST_F(ControlServerTest, HangUpAllSaysNoGoodbye) {
  RawClient attached(path_), looking(path_);
  attached.send(attach_request());
  run();
  expect_message<channel::AttachReply>(attached, Control::kAttached);
  server_->hang_up_all();
  for (RawClient* client : {&attached, &looking}) {
    const auto end = client->receive();
    ASSERT_TRUE(end.has_value());
    EXPECT_TRUE(end->empty());
  }
  EXPECT_EQ(registry_.attached_count(), 0u);
}

TEST_F(ControlServerTest, StaleSocketIsReplacedLiveOneIsNot) {
  ControlServer second(io_, mappings_, registry_, facts(), options());
  const Status taken = second.open();
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, EADDRINUSE);
  EXPECT_EQ(taken.error().text, path_ + ": another daemon listens there");
  expect_still_serving();

  server_->stop_accepting();
  const OwnedFd stale(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(stale.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_TRUE(second.open().ok());
}

TEST_F(ControlServerTest, OrdinaryFileIsNotReplaced) {
  server_->stop_accepting();
  std::ofstream(path_) << "precious";
  ControlServer second(io_, mappings_, registry_, facts(), options());
  const Status taken = second.open();
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().text, path_ + ": exists and is not a socket");
}

TEST_F(ControlServerTest, StopRemovesTheSocketFileAndItsMode) {
  struct stat file {};
  ASSERT_EQ(::stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  server_->stop_accepting();
  EXPECT_NE(::stat(path_.c_str(), &file), 0);
}

mode_t mode_of(const std::string& path) {
  struct stat file {};
  return ::stat(path.c_str(), &file) == 0 ? file.st_mode & 07777 : 0;
}

/// The folder of a domain's socket, under the umask of the service: its members must get through.
TEST_F(ControlServerTest, AllMayEnterAFolderThatItMakes) {
  const std::string made = folder_ + "/team-a";
  ControlOptions options_of_domain = options();
  options_of_domain.socket_path = made + "/lyred.sock";
  const mode_t before = ::umask(0007);
  {
    ControlServer domain(io_, mappings_, registry_, facts(), options_of_domain);
    EXPECT_TRUE(domain.open().ok());
    EXPECT_EQ(mode_of(made), 0755u);
    EXPECT_EQ(mode_of(options_of_domain.socket_path), 0600u);
  }
  ASSERT_EQ(::chmod(made.c_str(), 0710), 0);  // by an administrator
  {
    ControlServer domain(io_, mappings_, registry_, facts(), options_of_domain);
    EXPECT_TRUE(domain.open().ok());
    EXPECT_EQ(mode_of(made), 0710u);
  }
  ::umask(before);
  ::rmdir(made.c_str());
}

// A reload took another socket_mode, and did not apply it. An upgrade that fails changes nothing.
TEST_F(ControlServerTest, AProcessThatGoesOnAppliesItsOwnSocketMode) {
  ControlOptions others = options();
  others.socket_mode = 0640;
  ControlServer successor(io_, mappings_, registry_, facts(), others);
  EXPECT_EQ(mode_of(path_), 0600u);
  ASSERT_TRUE(successor.adopt(OwnedFd(::dup(server_->listener()))).ok());
  EXPECT_EQ(mode_of(path_), 0600u);
  successor.go_on();
  EXPECT_EQ(mode_of(path_), 0640u);
}

// The exception ended the process that went on, after the other one had.
TEST_F(ControlServerTest, AListenerThatTheSystemDoesNotWatchIsRefused) {
  ControlServer successor(io_, mappings_, registry_, facts(), options());
  const Status adopted = successor.adopt(OwnedFd(1 << 20));  // not open
  ASSERT_FALSE(adopted.ok());
  EXPECT_EQ(adopted.error().text, kNoMoreWatches);
}

// The other process had ended, and the client lost its context.
TEST_F(ControlServerTest, AClientThatTheSystemDoesNotWatchIsRefusedBeforeTheOtherProcessEnds) {
  HandedConnection connection{.socket = OwnedFd(1 << 20), .context = 0};
  const Status adopted = server_->adopt(connection);
  ASSERT_FALSE(adopted.ok());
  EXPECT_EQ(adopted.error().text, kNoMoreWatches);
  EXPECT_FALSE(connection.watched.has_value());
}

TEST_F(ControlServerTest, AClientThatIsWatchedKeepsWhatItSaysForWhoGoesOn) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const OwnedFd client(ends[0]);
  const OwnedFd others(ends[1]);
  ASSERT_EQ(::send(client.get(), "request", 7, 0), 7);
  {
    HandedConnection connection{.socket = OwnedFd(::dup(others.get())), .context = 0};
    ASSERT_TRUE(server_->adopt(connection).ok());
    EXPECT_FALSE(connection.socket.is_open());
    EXPECT_TRUE(connection.watched.has_value());
    run();
  }
  char said[8];
  EXPECT_EQ(::recv(others.get(), said, sizeof said, MSG_DONTWAIT), 7);
}

TEST_F(ControlServerTest, AProcessThatDoesNotGoOnLeavesTheOthersListener) {
  {
    ControlServer successor(io_, mappings_, registry_, facts(), options());
    ASSERT_TRUE(successor.adopt(OwnedFd(::dup(server_->listener()))).ok());
  }
  expect_still_serving();
}

// Whoever may write to the folder had another file's mode changed by an upgrade.
TEST_F(ControlServerTest, AProcessThatGoesOnFollowsNoLinkInPlaceOfItsSocket) {
  const std::string other = folder_ + "/other";
  std::ofstream(other) << "private";
  ASSERT_EQ(::chmod(other.c_str(), 0600), 0);
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  ASSERT_EQ(::symlink(other.c_str(), path_.c_str()), 0);
  ControlOptions others = options();
  others.socket_mode = 0666;
  {
    CapturedLog log;
    ControlServer successor(io_, mappings_, registry_, facts(), others);
    ASSERT_TRUE(successor.adopt(OwnedFd(::dup(server_->listener()))).ok());
    successor.go_on();
    EXPECT_EQ(mode_of(other), 0600u);
    EXPECT_TRUE(log.has(path_ + " is not this daemon's socket any more")) << log.text();
  }
  ::unlink(other.c_str());
}

/// A child that inherited the socket must not keep the context of its dead parent alive.
TEST_F(ControlServerTest, EndOfTheProcessIsTheEndOfTheClient) {
  const pid_t parent = ::fork();
  if (parent == 0) {
    RawClient client(path_);
    const channel::AttachRequest request = attach_request();
    ::send(client.fd(), &request, sizeof request, 0);
    pollfd answer{client.fd(), POLLIN, 0};
    ::poll(&answer, 1, 10'000);
    if (::fork() == 0) {
      pollfd hang_up{client.fd(), 0, 0};
      ::poll(&hang_up, 1, 10'000);
      ::_exit(0);
    }
    ::_exit(0);
  }
  EXPECT_TRUE(run_until([&] { return registry_.attached_total() == 1; }));
  EXPECT_TRUE(run_until([&] { return registry_.attached_count() == 0; }));
  ::waitpid(parent, nullptr, 0);
}

/// A client in a process of its own, which hangs up and ends when it is told to.
class ClientProcess {
 public:
  explicit ClientProcess(const std::string& path) {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair_), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(pair_[0]);
      RawClient client(path);
      step(pair_[1]);
      client.hang_up();
      step(pair_[1]);
      ::_exit(0);
    }
    await();
  }
  /// A process that was not told to end ends now.
  ~ClientProcess() {
    for (const int end : pair_) ::close(end);
    ::waitpid(pid_, nullptr, 0);
  }
  void hang_up() {
    EXPECT_EQ(::write(pair_[0], "", 1), 1);
    await();
  }
  void end() {
    EXPECT_EQ(::write(pair_[0], "", 1), 1);
    siginfo_t ended{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT), 0);
  }

 private:
  static void step(int end) {
    char byte = 0;
    if (::write(end, &byte, 1) != 1 || ::read(end, &byte, 1) != 1) ::_exit(1);
  }
  void await() {
    char byte = 0;
    EXPECT_EQ(::read(pair_[0], &byte, 1), 1);
  }

  int pair_[2] = {-1, -1};
  pid_t pid_ = 0;
};

// The descriptors of a new client took the places of those of two that had hung up, and the reactor
// told it of their processes' ends.
TEST_F(ControlServerTest, TheEndOfOneProcessIsNotThatOfTheNextClient) {
  ClientProcess before[] = {ClientProcess(path_), ClientProcess(path_)};
  run();
  ASSERT_EQ(server_->connection_count(), 2u);
  for (ClientProcess& each : before) each.hang_up();
  RawClient next(path_);
  for (ClientProcess& each : before) each.end();
  run();
  EXPECT_EQ(server_->connection_count(), 1u);
  next.send(make_message<channel::InfoRequest>(Control::kInfo));
  run();
  expect_message<channel::InfoReply>(next, Control::kInfoReply);
}

class ImpatientServerTest : public ControlServerTest {
 protected:
  ImpatientServerTest() {
    server_.reset();
    timeout_ = millis(1);
    server_.emplace(io_, mappings_, registry_, facts(), options());
    EXPECT_TRUE(server_->open().ok());
  }
};

TEST_F(ImpatientServerTest, SilentClientIsDropped) {
  RawClient client(path_);
  EXPECT_TRUE(run_until([&] { return server_->counters().idle == 1; }));
  expect_goodbye(client, "no attach in time");
}

// A client that had asked once kept its place for ever.
TEST_F(ImpatientServerTest, AnAnswerDoesNotKeepThePlaceOfAConnection) {
  RawClient client(path_);
  client.send(make_message<channel::InfoRequest>(Control::kInfo));
  EXPECT_TRUE(run_until([&] { return server_->counters().idle == 1; }));
  expect_message<channel::InfoReply>(client, Control::kInfoReply);
  expect_goodbye(client, "no attach in time");
}

class SharedServerTest : public ControlServerTest {
 protected:
  SharedServerTest() {
    server_.reset();
    ControlOptions shared = options();
    shared.connections_per_uid_max = 3;
    server_.emplace(io_, mappings_, registry_, facts(), shared);
    EXPECT_TRUE(server_->open().ok());
  }
};

TEST_F(SharedServerTest, AUidHasAShareOfTheConnections) {
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back(path_);
  run();
  RawClient late(path_);
  run();
  expect_goodbye(late,
                 "too many connections: clients of one uid may have 3 "
                 "(clients.contexts_per_uid_max + 64)");
  EXPECT_EQ(server_->counters().refused, 1u);
  clients.pop_back();
  run();
  expect_still_serving();
}

TEST_F(ControlServerTest, TheLogNamesWhoAttachesAndDetaches) {
  CapturedLog log;
  const std::string who = "(pid " + std::to_string(::getpid()) + " uid " +
                          std::to_string(::getuid()) + " gid " + std::to_string(::getgid()) + ")";
  {
    RawClient client(path_);
    client.send(attach_request());
    run();
  }
  run();
  EXPECT_TRUE(log.has(who + ": attached as context 0")) << log.text();
  EXPECT_TRUE(log.has(who + ": detached from context 0")) << log.text();
}

}  // namespace
}  // namespace lyre
