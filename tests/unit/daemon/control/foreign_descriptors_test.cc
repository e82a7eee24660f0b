#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <optional>

#include "daemon/memory/foreign_closer.h"
#include "tests/unit/daemon/control_fixture.h"

// Descriptors whose close blocks, on the control socket: the daemon neither waits for them nor
// keeps more than a few, and serves others meanwhile.
namespace lyre {
namespace {

/// A TCP socket that lingers: its close waits until the other end has read what was sent.
class LingeringSocket {
 public:
  LingeringSocket() {
    const OwnedFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener.get(), plain, bytes), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), plain, &bytes), 0);
    socket_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket_.get(), plain, bytes), 0);
    reader_.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(reader_.is_open());
    EXPECT_EQ(::fcntl(socket_.get(), F_SETFL, O_NONBLOCK), 0);
    const std::array<char, 65536> block{};
    while (::send(socket_.get(), block.data(), block.size(), MSG_NOSIGNAL) > 0) {
    }
    EXPECT_EQ(::fcntl(socket_.get(), F_SETFL, 0), 0);
    const linger kept{.l_onoff = 1, .l_linger = 300};
    EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &kept, sizeof kept), 0);
  }
  /// The one and only descriptor: who closes a copy of it afterwards waits.
  OwnedFd take() { return std::move(socket_); }
  /// Resets the connection: no close waits any more.
  void let_go() { reader_.reset(); }

 private:
  OwnedFd socket_, reader_;
};

class ForeignDescriptors : public ControlServerTest {
 protected:
  ForeignDescriptors() {
    client_.emplace(path_);
    client_->send(attach_request());
    run();
    EXPECT_EQ(expect_message<channel::AttachReply>(*client_, Control::kAttached).error, 0);
  }
  static channel::RegisterRequest request() {
    auto out = make_message<channel::RegisterRequest>(Control::kRegister);
    out.source = channel::RegionSource::kDescriptor;
    out.bytes = 4096;
    return out;
  }
  /// Passes a descriptor that lingers.
  void pass_one() {
    const OwnedFd file = sockets_.emplace_back().take();
    client_->send_with(request(), {file.get()});
  }
  size_t waiting() const { return closer_->waiting_count(::geteuid()); }
  void let_all_go() {
    for (LingeringSocket& socket : sockets_) socket.let_go();
    EXPECT_TRUE(run_until([this] { return waiting() == 0 && closer_->thread_count() == 0; }));
  }

  std::optional<RawClient> client_;
  std::deque<LingeringSocket> sockets_;
};

TEST_F(ForeignDescriptors, AreClosedByOneThreadAndMakeNobodyWait) {
  for (int i = 0; i < 4; ++i) {
    pass_one();
    run();
    EXPECT_EQ(expect_message<channel::RegionReply>(*client_, Control::kRegistered).error, EINVAL);
  }
  EXPECT_EQ(waiting(), 4u);
  EXPECT_EQ(closer_->thread_count(), 1u);
  expect_still_serving();
  let_all_go();
}

TEST_F(ForeignDescriptors, BeyondAFewRefuseTheUsersNextConnection) {
  for (size_t i = 0; i < ForeignCloser::kWaitingPerUserMax; ++i) {
    pass_one();
    run();
    EXPECT_EQ(expect_message<channel::RegionReply>(*client_, Control::kRegistered).error, EINVAL);
  }
  RawClient refused(path_);
  run();
  expect_goodbye(refused, kTooManyWaitingCloses);
  pass_one();
  run();
  expect_goodbye(*client_, kTooManyWaitingCloses);
  EXPECT_EQ(closer_->thread_count(), 1u);
  let_all_go();
  workers_.answer_detaches();
  expect_still_serving();
}

// Root of a container can have the uid of the daemon: its descriptors refused what asks whether the
// daemon lives.
TEST_F(ForeignDescriptors, DoNotRefuseTheAdministratorsSocketToTheSameUid) {
  ControlOptions administrators = options();
  administrators.socket_path = path_ + ".admin";
  administrators.serves_clients = false;
  ControlServer administration(io_, mappings_, registry_, facts(), administrators);
  ASSERT_TRUE(administration.open().ok());
  for (size_t i = 0; i < ForeignCloser::kWaitingPerUserMax; ++i) {
    pass_one();
    run();
    EXPECT_EQ(expect_message<channel::RegionReply>(*client_, Control::kRegistered).error, EINVAL);
  }
  ASSERT_FALSE(closer_->has_room(::geteuid()));
  RawClient looker(administrators.socket_path);
  run();
  EXPECT_EQ(administration.counters().refused, 0u);
  EXPECT_EQ(administration.connection_count(), 1u);
  let_all_go();
}

TEST_F(ForeignDescriptors, ThatNothingReceivedAreClosedWithTheConnectionAndMakeNobodyWait) {
  const auto malformed = make_message<channel::InfoReply>(Control::kInfoReply);
  client_->send(malformed);  // ends the connection
  client_->send_bytes({});   // looks like the end
  pass_one();
  run();
  workers_.answer_detaches();
  take_replies();
  EXPECT_EQ(waiting(), 1u);
  expect_still_serving();
  let_all_go();
}

TEST_F(ForeignDescriptors, ForWhichThereIsNoRoomMakeNobodyWait) {
  {
    const OwnedFd one(::memfd_create("lyre-test", MFD_CLOEXEC));
    const OwnedFd other = sockets_.emplace_back().take();
    client_->send_with(request(), {one.get(), other.get()});
  }
  run();
  expect_goodbye(*client_, "descriptors that are not allowed");
  EXPECT_EQ(waiting(), 1u);
  expect_still_serving();
  let_all_go();
}

TEST_F(ForeignDescriptors, OfARefusedConnectionMakeNobodyWait) {
  std::deque<RawClient> others;
  while (server_->connection_count() < 8) {
    others.emplace_back(path_);
    run();
  }
  RawClient refused(path_);
  {
    const OwnedFd file = sockets_.emplace_back().take();
    refused.send_with(request(), {file.get()});
  }
  run();
  EXPECT_EQ(waiting(), 1u);
  others.clear();
  run();
  expect_still_serving();
  let_all_go();
}

TEST_F(ForeignDescriptors, OfUsersBeyondTheThreadsWait) {
  ForeignCloser closer;
  const auto users = static_cast<uint64_t>(ForeignCloser::kThreadsMax) + 2;
  for (uint64_t user = 0; user < users; ++user) {
    closer.close(sockets_.emplace_back().take(), user);
  }
  EXPECT_EQ(closer.thread_count(), ForeignCloser::kThreadsMax);
  EXPECT_EQ(closer.waiting_count(users - 1), 1u);
  for (LingeringSocket& socket : sockets_) socket.let_go();
  EXPECT_TRUE(run_until([&] { return closer.thread_count() == 0; }));
  EXPECT_EQ(closer.waiting_count(users - 1), 0u);
}

// The pages of a client that is gone end with the file: some 0.2 s for each GiB. The socket takes
// as long as it likes.
TEST_F(ForeignDescriptors, LargeMemoryOfAClientIsClosedByAThread) {
  LingeringSocket slow;
  registry_.regions().close_memory(0, slow.take(), uint64_t{1} << 30);
  RawClient other(path_);
  other.send(attach_request());
  run();
  EXPECT_EQ(expect_message<channel::AttachReply>(other, Control::kAttached).error, 0);
  slow.let_go();
}

}  // namespace
}  // namespace lyre
