#pragma once

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/shared_memory.h"
#include "daemon/control/control_server.h"
#include "daemon/protocol/control_message.h"
#include "stack/channel/abi.h"
#include "tests/support/deadline.h"
#include "tests/unit/daemon/fake_mapping_helper.h"
#include "tests/unit/daemon/fake_workers.h"

/// A control server with workers that only listen, and clients that speak bytes to it.
namespace lyre {

using channel::Control;

inline RegistryOptions registry_options() {
  RegistryOptions options;
  options.contexts_max = 4;
  options.arena_bytes_max = 8 << 20;
  options.regions.bytes_per_context_max = 1 << 20;
  options.lend = Lend::kDomain;
  return options;
}

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
  /// As a client that closes its context.
  void hang_up() {
    socket_.reset();
    descriptors_.clear();
  }

  template <typename Message>
  void send(const Message& message) {
    send_bytes(bytes_of(message));
  }
  template <typename Message>
  void send_with(const Message& message, std::initializer_list<int> descriptors) {
    const Status sent =
        send_packet(fd(), bytes_of(message), {descriptors.begin(), descriptors.size()});
    EXPECT_TRUE(sent.ok());
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
    ssize_t count = ::recvmsg(fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // Once, where the daemon closed before it had taken all messages.
    if (count < 0 && errno == ECONNRESET) {
      count = ::recvmsg(fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    }
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

inline channel::AttachRequest attach_request() {
  auto request = make_message<channel::AttachRequest>(Control::kAttach);
  request.abi_versions = channel::kAbiVersions;
  request.arena_bytes = 1 << 20;
  std::strcpy(request.label, "raw");
  return request;
}

class ControlServerTest : public ::testing::Test {
 protected:
  explicit ControlServerTest(const RegistryOptions& terms = registry_options(),
                             Nanos mapping_patience = kMappingPatience)
      : mappings_(io_, helper_.process(), mapping_patience), registry_(workers_, terms) {
    spdlog::set_level(spdlog::level::off);
    char name[] = "/tmp/lyre-control-XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ + "/lyred.sock";
    memory_ = std::move(*SharedMemory::create("lyre-test", 4096, SharedWith::kReaders));
    reader_ = std::move(*reopen_read_only(memory_.fd()));
    server_.emplace(io_, mappings_, registry_, facts(), options());
    const Status status = server_->open();
    EXPECT_TRUE(status.ok()) << status.error().text;
  }
  ~ControlServerTest() override {
    server_.reset();
    // The next test may count descriptors.
    EXPECT_TRUE(run_until([this] { return closer_->thread_count() == 0; }));
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
            .operators = {},  // the clients of these tests have the daemon's uid
            .attach_timeout = timeout_,
            .closer = closer_};
  }
  /// Lets the server do all that is waiting.
  void run() {
    io_.restart();
    while (io_.poll() > 0) {
    }
  }
  /// Lets it run until `is_done`, about a minute at most.
  template <typename Done>
  bool run_until(Done is_done) {
    const test::Deadline deadline;
    while (!is_done() && !deadline.is_over()) {
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
  /// As ReplyTaker does.
  void take_replies() {
    std::vector<Expulsion> expulsions;
    registry_.poll(expulsions);
    for (const Expulsion& expulsion : expulsions) server_->expel(expulsion);
    for (const uint32_t context : registry_.take_detached()) server_->on_detached(context);
    run();
  }
  /// A client that has a context is told when the workers have let go of it.
  void expect_goodbye(RawClient& client, const std::string& text) {
    workers_.answer_detaches();
    if (server_) take_replies();
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
  std::shared_ptr<ForeignCloser> closer_ = std::make_shared<ForeignCloser>();
  boost::asio::io_context io_;
  FakeMappingHelper helper_;
  MappingOpener mappings_;
  FakeWorkers workers_{2};
  ContextRegistry registry_;
  SharedMemory memory_;
  OwnedFd reader_;
  std::string folder_, path_;
  std::optional<ControlServer> server_;
};

}  // namespace lyre
