#include "daemon/control_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "daemon/control_message.h"
#include "daemon/shared_memory.h"
#include "stack/channel/abi.h"
#include "tests/unit/daemon/fake_workers.h"

namespace lyre {
namespace {

using channel::Control;

constexpr RegistryOptions kRegistry{
    .contexts_max = 4, .arena_bytes_max = 8 << 20, .lend = Lend::kAll, .lend_uid = 0};

/// A client that does what it likes: it speaks bytes, not the library.
class RawClient {
 public:
  explicit RawClient(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    is_connected_ =
        ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  bool is_connected() const { return is_connected_; }
  int fd() const { return socket_.get(); }
  void hang_up() { socket_.reset(); }

  template <typename Message>
  void send(const Message& message) {
    send_bytes(bytes_of(message));
  }
  void send_bytes(std::span<const uint8_t> bytes) {
    EXPECT_EQ(::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// The next message without waiting; its descriptors are kept. Nullopt: nothing there.
  std::optional<std::vector<uint8_t>> receive() {
    std::vector<uint8_t> bytes(8192);
    alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))];
    iovec vector{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t count = ::recvmsg(fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count < 0) return std::nullopt;
    take_descriptors(message);
    bytes.resize(static_cast<size_t>(count));
    return bytes;
  }
  std::vector<OwnedFd>& descriptors() { return descriptors_; }

 private:
  void take_descriptors(msghdr& message) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(&message, part)) {
      const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
        descriptors_.emplace_back(fd);
      }
    }
  }
  OwnedFd socket_;
  bool is_connected_ = false;
  std::vector<OwnedFd> descriptors_;
};

channel::AttachRequest attach_request() {
  auto request = make_message<channel::AttachRequest>(Control::kAttach);
  request.abi_version = channel::kAbiVersion;
  request.arena_bytes = 1 << 20;
  std::strcpy(request.label, "raw");
  return request;
}

class ControlServerTest : public ::testing::Test {
 protected:
  ControlServerTest() {
    spdlog::set_level(spdlog::level::off);
    char name[] = "/tmp/lyre-control-XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ + "/lyred.sock";
    memory_ = std::move(*SharedMemory::create("lyre-test", 4096, SharedWith::kReaders));
    reader_ = std::move(*reopen_read_only(memory_.fd()));
    server_.emplace(io_, registry_, facts(), options());
    const Status status = server_->open();
    EXPECT_TRUE(status.ok()) << status.error().text;
  }
  ~ControlServerTest() override {
    server_.reset();
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }

  DaemonFacts facts() {
    DaemonFacts facts;
    facts.worker_count = 2;
    facts.doorbells_fd = reader_.get();
    facts.pool_fds = {reader_.get(), reader_.get()};
    facts.pool_bytes = {4096, 4096};
    facts.stats_fd = reader_.get();
    facts.stats_bytes = 4096;
    facts.ports = [] {
      std::vector<channel::PortInfo> ports(1);
      std::strcpy(ports[0].name, "wire");
      return ports;
    };
    return facts;
  }
  ControlOptions options() {
    return {.socket_path = path_,
            .socket_group = "",
            .socket_mode = 0600,
            .connections_max = 8,
            .first_request_timeout = timeout_};
  }
  /// Lets the server do all that is waiting.
  void run() {
    io_.restart();
    while (io_.poll() > 0) {
    }
  }
  /// Lets it run until `is_done`, at most ten seconds.
  template <typename Done>
  bool run_until(Done is_done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!is_done() && std::chrono::steady_clock::now() < end) {
      io_.restart();
      io_.run_for(std::chrono::milliseconds(5));
    }
    return is_done();
  }
  template <typename Message>
  Message expect_message(RawClient& client, Control type) {
    Message message{};
    const auto bytes = client.receive();
    EXPECT_TRUE(bytes.has_value());
    EXPECT_EQ(bytes ? bytes->size() : 0, sizeof message);
    if (bytes && bytes->size() == sizeof message) {
      std::memcpy(static_cast<void*>(&message), bytes->data(), sizeof message);
    }
    EXPECT_EQ(message.header.type, type);
    return message;
  }
  void expect_goodbye(RawClient& client, const std::string& text) {
    const auto goodbye = expect_message<channel::Goodbye>(client, Control::kGoodbye);
    EXPECT_EQ(std::string(goodbye.text), text);
    const auto end = client.receive();
    ASSERT_TRUE(end.has_value());
    EXPECT_TRUE(end->empty());
  }
  /// A well-behaved client is served: nothing that happened before did harm.
  void expect_still_serving() {
    RawClient good(path_);
    good.send(attach_request());
    run();
    EXPECT_EQ(expect_message<channel::AttachReply>(good, Control::kAttached).error, 0);
    good.hang_up();
    run();
    workers_.answer_detaches();
    std::vector<Expulsion> none;
    registry_.poll(none);
  }

  Nanos timeout_ = seconds(60);
  boost::asio::io_context io_;
  FakeWorkers workers_{2};
  ContextRegistry registry_{workers_, kRegistry};
  SharedMemory memory_;
  OwnedFd reader_;
  std::string folder_, path_;
  std::optional<ControlServer> server_;
};

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
  EXPECT_EQ(::write(client.descriptors()[3].get(), &one, sizeof one), 8);  // a worker's bell
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
  const std::pair<channel::AttachRequest, const char*> cases[] = {
      {with([](auto& r) { r.header.magic = 1; }), "a request with a wrong magic"},
      {with([](auto& r) { r.header.version = 9; }), "control version 9 is not spoken here, only 1"},
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

TEST_F(ControlServerTest, UnknownAbiIsAnsweredAndMayTryAgain) {
  RawClient client(path_);
  channel::AttachRequest request = attach_request();
  request.abi_version = 99;
  client.send(request);
  run();
  const auto reply = expect_message<channel::AttachReply>(client, Control::kAttached);
  EXPECT_EQ(reply.error, EPROTONOSUPPORT);
  EXPECT_STREQ(reply.text, "channel ABI 99 is not spoken here, only 1");
  client.send(attach_request());
  run();
  EXPECT_EQ(expect_message<channel::AttachReply>(client, Control::kAttached).error, 0);
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
    expect_goodbye(client, "unasked-for descriptors");
  }
  EXPECT_EQ(open_descriptors(), before);
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
  expect_goodbye(late, "too many connections");
  EXPECT_EQ(server_->counters().refused, 1u);
  clients.pop_back();
  run();
  expect_still_serving();
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
  EXPECT_EQ(registry_.held_count(), 1u);
}

TEST_F(ControlServerTest, HangUpAllTellsEveryone) {
  RawClient attached(path_), looking(path_);
  attached.send(attach_request());
  run();
  expect_message<channel::AttachReply>(attached, Control::kAttached);
  server_->hang_up_all("the daemon is stopping");
  expect_goodbye(attached, "the daemon is stopping");
  expect_goodbye(looking, "the daemon is stopping");
  EXPECT_EQ(registry_.attached_count(), 0u);
}

TEST_F(ControlServerTest, StaleSocketIsReplacedLiveOneIsNot) {
  ControlServer second(io_, registry_, facts(), options());
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
  ControlServer second(io_, registry_, facts(), options());
  const Status taken = second.open();
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().text, path_ + ": is there and not a socket");
}

TEST_F(ControlServerTest, StopRemovesTheSocketFileAndItsMode) {
  struct stat file {};
  ASSERT_EQ(::stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  server_->stop_accepting();
  EXPECT_NE(::stat(path_.c_str(), &file), 0);
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

class ImpatientServerTest : public ControlServerTest {
 protected:
  ImpatientServerTest() {
    server_.reset();
    timeout_ = millis(1);
    server_.emplace(io_, registry_, facts(), options());
    EXPECT_TRUE(server_->open().ok());
  }
};

TEST_F(ImpatientServerTest, SilentClientIsDropped) {
  RawClient client(path_);
  EXPECT_TRUE(run_until([&] { return server_->counters().silent == 1; }));
  expect_goodbye(client, "nothing was asked for");
}

}  // namespace
}  // namespace lyre
