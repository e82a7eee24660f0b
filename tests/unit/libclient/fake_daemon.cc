#include "tests/unit/libclient/fake_daemon.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

#include "tests/support/deadline.h"

namespace lyre::client {
namespace {

constexpr uint64_t kGeneration = uint64_t{1} << 32;  // its connections begin at worker 0

UniqueFd make_memory(const char* name, uint64_t bytes, Mapping& mapping) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
  EXPECT_EQ(0, ::ftruncate(fd.get(), static_cast<off_t>(bytes)));
  EXPECT_TRUE(mapping.map(fd.get(), bytes, PROT_READ | PROT_WRITE));
  return fd;
}

}  // namespace

FakeDaemon::FakeDaemon(const FakeDaemonOptions& options) : options_(options) {
  char folder[] = "/tmp/lyre_libclient_XXXXXX";
  folder_ = ::mkdtemp(folder);
  path_ = folder_ + "/lyred.sock";
  layout_ = channel::ContextLayout::of(options.worker_count, options.arena_bytes,
                                       options.lends ? 0 : 64 * 1024);
  memory_fd_ = make_memory("context", layout_.total_bytes, memory_);
  doorbells_fd_ = make_memory("doorbells", 4096, doorbells_);
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  auto* header = new (memory_.data()) channel::ContextHeader{};
  header->magic = channel::kContextMagic;
  header->abi_version = channel::kAbiVersions.max;
  header->worker_count = options.worker_count;
  header->generation = kGeneration;
  header->total_bytes = layout_.total_bytes;
  header->rings_offset = layout_.rings_offset;
  header->arena_offset = layout_.arena_offset;
  header->arena_bytes = options.arena_bytes;
  header->copy_offset = layout_.copy_offset;
  header->copy_bytes = layout_.total_bytes - layout_.copy_offset;
  for (uint32_t i = 0; i < options.worker_count; ++i) {
    channel::RingPair& pair = rings(i);
    submissions_.emplace_back(&pair.submission_indices, pair.submissions);
    completions_.emplace_back(&pair.completion_indices, pair.completions);
    worker_wakes_.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    pools_.emplace_back();
    pool_fds_.push_back(make_memory("pool", options.pool_bytes, pools_.back()));
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path_.c_str());
  listener_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  EXPECT_EQ(0, ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address));
  EXPECT_EQ(0, ::listen(listener_.get(), 4));
  server_ = std::thread([this] { serve(); });
}

FakeDaemon::~FakeDaemon() {
  ::eventfd_write(stop_.get(), 1);
  if (server_.joinable()) server_.join();
  std::filesystem::remove_all(folder_);
}

/// False when the test is over.
bool FakeDaemon::accept_client() {
  pollfd entries[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  ::poll(entries, 2, -1);
  if (entries[1].revents != 0) return false;
  connection_ = UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return true;
}

/// `is_left`: in the socket, as by a daemon that ends before it reads.
void FakeDaemon::take_attach(bool is_left) {
  channel::AttachRequest request;
  EXPECT_EQ(static_cast<ssize_t>(sizeof request),
            ::recv(connection_.get(), &request, sizeof request, is_left ? MSG_PEEK : 0));
}

void FakeDaemon::serve() {
  for (int i = 0; i < options_.dropped_first; ++i) {
    if (!accept_client()) return;
    take_attach(true);
    hang_up();
  }
  if (!accept_client()) return;
  take_attach(options_.ends_unread);
  if (options_.goodbye != nullptr) say_goodbye(options_.goodbye);
  if (options_.ends || options_.ends_unread) {
    listener_ = UniqueFd();
    return hang_up();
  }
  if (options_.is_silent) return;
  std::this_thread::sleep_for(options_.late);
  send_reply(connection_.get());
}

void FakeDaemon::send_reply(int socket) {
  channel::AttachReply reply{};
  reply.header.type = channel::Control::kAttached;
  reply.header.bytes = sizeof reply;
  reply.worker_count = options_.worker_count;
  reply.lends = options_.lends ? 1 : 0;
  reply.port_count = 1;
  reply.generation = kGeneration;
  reply.context_bytes = layout_.total_bytes;
  std::strcpy(reply.ports[0].name, "memif0");
  reply.ports[0].mtu_bytes = 1500;
  for (uint32_t i = 0; i < options_.worker_count; ++i) reply.pool_bytes[i] = options_.pool_bytes;
  auto* header = reinterpret_cast<channel::ContextHeader*>(memory_.data());
  if (options_.distort) options_.distort(reply, *header);
  std::vector<int> fds = {memory_fd_.get(), wake_.get(), doorbells_fd_.get()};
  for (const UniqueFd& fd : worker_wakes_) fds.push_back(fd.get());
  if (options_.lends) {
    for (const UniqueFd& fd : pool_fds_) fds.push_back(fd.get());
  }
  fds.resize(fds.size() - static_cast<size_t>(options_.descriptors_less));
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  iovec vector{&reply, sizeof reply};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

lyre_context* FakeDaemon::attach(uint64_t patience_ms) {
  lyre_options options{.struct_bytes = sizeof options};
  options.patience_ms = patience_ms;
  options.socket_path = socket_path();
  lyre_context* context = nullptr;
  EXPECT_EQ(0, lyre_context_open(&options, &context)) << lyre_last_error();
  await_client();
  return context;
}

void FakeDaemon::await_client() {
  if (server_.joinable()) server_.join();
}

bool FakeDaemon::sees_the_end() {
  pollfd entry{connection_.get(), POLLRDHUP, 0};
  return ::poll(&entry, 1, 60'000) == 1;
}

channel::RingPair& FakeDaemon::rings(uint32_t worker) {
  return reinterpret_cast<channel::RingPair*>(memory_.data() + layout_.rings_offset)[worker];
}

std::optional<channel::Submission> FakeDaemon::try_take(uint32_t worker) {
  if (submissions_[worker].available() == 0) return std::nullopt;
  const channel::Submission entry = submissions_[worker].pop();
  submissions_[worker].publish();
  return entry;
}

channel::Submission FakeDaemon::take(uint32_t worker) {
  const test::Deadline deadline;
  for (;;) {
    if (const auto entry = try_take(worker)) return *entry;
    if (deadline.is_over()) {
      ADD_FAILURE() << "the client submitted nothing to worker " << worker;
      return {};
    }
    std::this_thread::yield();
  }
}

void FakeDaemon::tell(const channel::Completion& entry, uint32_t worker) {
  ASSERT_GT(completions_[worker].room(), 0u);
  completions_[worker].push(entry);
  completions_[worker].publish();
  auto* header = reinterpret_cast<channel::ContextHeader*>(memory_.data());
  if (channel::must_ring(header->client_sleeps)) ::eventfd_write(wake_.get(), 1);
}

void FakeDaemon::fall_asleep(uint32_t worker) {
  auto* bells = reinterpret_cast<channel::WorkerDoorbell*>(doorbells_.data());
  bells[worker].worker_sleeps.store(1);
}

void FakeDaemon::say_crowded(uint32_t worker) {
  auto* bells = reinterpret_cast<channel::WorkerDoorbell*>(doorbells_.data());
  bells[worker].is_crowded.store(1);
}

bool FakeDaemon::is_client_asleep() {
  return reinterpret_cast<channel::ContextHeader*>(memory_.data())->client_sleeps.load() != 0;
}

uint64_t FakeDaemon::rings_heard(uint32_t worker) {
  eventfd_t count = 0;
  ::eventfd_read(worker_wakes_[worker].get(), &count);
  return count;
}

template <typename Request>
Request FakeDaemon::take_memory_request(channel::Control type) {
  Request request{};
  EXPECT_EQ(static_cast<ssize_t>(sizeof request),
            ::recv(connection_.get(), &request, sizeof request, 0));
  EXPECT_EQ(type, request.header.type);
  return request;
}

channel::RegisterRequest FakeDaemon::take_registration() {
  return take_memory_request<channel::RegisterRequest>(channel::Control::kRegister);
}

channel::DeregisterRequest FakeDaemon::take_deregistration() {
  return take_memory_request<channel::DeregisterRequest>(channel::Control::kDeregister);
}

void FakeDaemon::answer_registration(uint32_t region, int error) {
  answer_memory_request(channel::Control::kRegistered, region, error);
}

void FakeDaemon::answer_deregistration(uint32_t region, int error) {
  answer_memory_request(channel::Control::kDeregistered, region, error);
}

void FakeDaemon::answer_memory_request(channel::Control type, uint32_t region, int error) {
  channel::RegionReply reply{};
  reply.header.type = type;
  reply.header.bytes = sizeof reply;
  reply.region = region;
  reply.error = error;
  ::send(connection_.get(), &reply, sizeof reply, MSG_NOSIGNAL);
}

void FakeDaemon::say_goodbye(const char* text) {
  channel::Goodbye goodbye{};
  goodbye.header.type = channel::Control::kGoodbye;
  goodbye.header.bytes = sizeof goodbye;
  std::strcpy(goodbye.text, text);
  ::send(connection_.get(), &goodbye, sizeof goodbye, MSG_NOSIGNAL);
}

void FakeDaemon::hang_up() { connection_ = UniqueFd(); }

namespace {

channel::Completion opened(channel::Event event, uint64_t cookie, channel::SessionName name) {
  channel::Completion entry{.event = event, .session = name};
  entry.body.opened = {};
  entry.body.opened.cookie = cookie;
  const lyre_addr local = address("10.9.0.1:4000");
  const lyre_addr remote = address("10.9.0.2:5000");
  std::memcpy(entry.body.opened.local_address, local.address, 16);
  std::memcpy(entry.body.opened.remote_address, remote.address, 16);
  entry.body.opened.local_port = local.port;
  entry.body.opened.remote_port = remote.port;
  return entry;
}

}  // namespace

channel::Completion connecting(uint64_t cookie, channel::SessionName name) {
  return opened(channel::Event::kConnecting, cookie, name);
}

channel::Completion connect_failed(uint64_t cookie, channel::EndStatus status) {
  channel::Completion entry = opened(channel::Event::kConnectFailed, cookie, {});
  entry.status = status;
  return entry;
}

channel::Completion connected(uint64_t cookie, channel::SessionName name) {
  return opened(channel::Event::kConnected, cookie, name);
}

channel::Completion accepted(uint64_t cookie, channel::SessionName name) {
  return opened(channel::Event::kAccepted, cookie, name);
}

channel::Completion listening(uint64_t cookie, channel::SessionName name, uint16_t port) {
  channel::Completion entry = opened(channel::Event::kListening, cookie, name);
  entry.body.opened.local_port = port;
  return entry;
}

channel::Completion listen_failed(uint64_t cookie, channel::EndStatus status) {
  channel::Completion entry = opened(channel::Event::kListenFailed, cookie, {});
  entry.status = channel::general(status);
  entry.exact = status;
  return entry;
}

channel::Completion send_done(channel::SessionName name, uint64_t descriptors, uint32_t acked_bytes,
                              channel::EndStatus status) {
  channel::Completion entry{.event = channel::Event::kSendDone, .status = status, .session = name};
  entry.body.send_done = {.descriptors = descriptors,
                          .acked_bytes = acked_bytes,
                          .rtt_min_us = kRttMinUs,
                          .rto_us = kRtoUs};
  return entry;
}

channel::Completion data(channel::SessionName name, std::vector<channel::LentSlice> slices,
                         uint8_t pool) {
  channel::Completion entry{.event = channel::Event::kData, .pool = pool, .session = name};
  entry.count = static_cast<uint8_t>(slices.size());
  for (size_t i = 0; i < slices.size(); ++i) entry.body.data[i] = slices[i];
  return entry;
}

channel::Completion peer_finished(channel::SessionName name) {
  return {.event = channel::Event::kPeerFinished, .session = name};
}

channel::Completion ended(channel::SessionName name, channel::EndStatus status) {
  return {.event = channel::Event::kEnded, .status = status, .session = name};
}

lyre_addr address(const char* text) {
  lyre_addr out{};
  EXPECT_EQ(0, lyre_addr_parse(text, &out)) << text;
  return out;
}

lyre_event next_event(lyre_context* context) {
  lyre_event event{.struct_bytes = sizeof event};
  const int code = lyre_next_event(context, &event);
  EXPECT_EQ(event.happened != 0 ? 1 : 0, code);
  return event;
}

lyre_session* open_session(FakeDaemon& daemon, lyre_context* context, channel::SessionName name,
                           uint32_t worker) {
  const lyre_addr remote = address("10.9.0.2:5000");
  lyre_session* session = nullptr;
  EXPECT_EQ(0, lyre_connect(context, nullptr, &remote, &session));
  const channel::Submission entry = daemon.take(worker);
  EXPECT_EQ(channel::Op::kConnect, entry.op);
  daemon.tell(connected(entry.body.open.cookie, name), worker);
  EXPECT_EQ(1, lyre_poll(context, 0));
  EXPECT_EQ(LYRE_OPEN, lyre_state(session));
  EXPECT_EQ(session, next_event(context).session);
  return session;
}

}  // namespace lyre::client
