#include "tests/hostile/raw_client.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "libclient/include/lyre/lyre.h"
#include "stack/channel/control.h"
#include "tests/support/deadline.h"

namespace lyre::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kPause = 50us;
/// The indices of AttachReply's descriptors: context memory, and the first worker's doorbell.
constexpr size_t kMemory = 0;
constexpr size_t kWorkerBell = 3;

template <typename IsDone>
bool wait_until(IsDone is_done) {
  const Deadline deadline;
  while (!is_done()) {
    if (deadline.is_over()) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace

RawClient::RawClient(const std::string& socket) {
  // The daemon may still hold the context of a client that has just closed.
  const client::AttachOptions options{
      .path = socket.c_str(), .label = "hostile", .arena_bytes = 0, .patience_ms = 60'000};
  const auto try_attach = [&] { return client::attach(options, attachment_) == 0; };
  if (!wait_until(try_attach)) throw std::runtime_error(lyre_last_error());
  const int memory = attachment_.descriptors[kMemory].get();
  if (!memory_.map(memory, attachment_.reply.context_bytes, PROT_READ | PROT_WRITE)) {
    throw std::runtime_error("cannot map the context's memory");
  }
  const auto* header = reinterpret_cast<const channel::ContextHeader*>(memory_.data());
  auto* rings = reinterpret_cast<channel::RingPair*>(memory_.data() + header->rings_offset);
  submissions_ = {&rings->submission_indices, rings->submissions};
  completions_ = {&rings->completion_indices, rings->completions};
}

bool RawClient::submit(const channel::Submission& entry) {
  wait_until([&] { return submissions_.room() > 0 || has_hung_up(); });
  if (submissions_.room() == 0) return false;
  submissions_.push(entry);
  submissions_.publish();
  ring_bell();
  return true;
}

void RawClient::ring_bell() { (void)!eventfd_write(attachment_.descriptors[kWorkerBell].get(), 1); }

bool RawClient::open(channel::Op op, const Endpoint& local, const Endpoint& remote) {
  channel::Submission entry{.op = op};
  entry.backlog = UINT16_MAX;
  std::memcpy(entry.body.open.local_address, local.address.bytes.data(), 16);
  std::memcpy(entry.body.open.remote_address, remote.address.bytes.data(), 16);
  entry.body.open.local_port = local.port;
  entry.body.open.remote_port = remote.port;
  return submit(entry);
}

bool RawClient::listen(uint16_t port) {
  return open(channel::Op::kListen, {.port = port}, {}) &&
         next().event == channel::Event::kListening;
}

bool RawClient::connect(const Endpoint& remote) { return open(channel::Op::kConnect, {}, remote); }

bool RawClient::send(channel::SessionName session, uint32_t bytes, uint32_t region) {
  channel::Submission entry{.op = channel::Op::kSend, .session = session};
  entry.body.send = {.region = region, .bytes = bytes, .offset = 0};
  return submit(entry);
}

uint32_t RawClient::register_file(int file, uint64_t bytes) {
  channel::RegisterRequest request{};
  request.header.type = channel::Control::kRegister;
  request.header.bytes = sizeof request;
  request.source = channel::RegionSource::kDescriptor;
  request.bytes = bytes;
  channel::RegionReply reply{};
  const int code = client::ask_region(
      attachment_.control, {reinterpret_cast<uint8_t*>(&request), sizeof request}, file, reply);
  return code == 0 && reply.error == 0 ? reply.region : 0;
}

bool RawClient::tell(channel::Op op, channel::SessionName session) {
  return submit({.op = op, .session = session});
}

void RawClient::fill(const channel::Submission& entry) {
  while (submissions_.room() > 0) submissions_.push(entry);
  submissions_.publish();
  ring_bell();
}

RawClient::Ends RawClient::connect_to_itself(const Endpoint& own) {
  Ends ends;
  connect(own);
  while (ends.near.generation == 0 || ends.far.generation == 0) {
    const channel::Completion entry = next();
    if (entry.event == channel::Event::kConnected) ends.near = entry.session;
    if (entry.event == channel::Event::kAccepted) ends.far = entry.session;
    if (entry.event == channel::Event::kNone) return {};
  }
  return ends;
}

channel::Completion RawClient::next() {
  wait_until([&] { return completions_.available() > 0 || has_hung_up(); });
  if (completions_.available() == 0) return {};
  const channel::Completion entry = completions_.pop();
  completions_.publish();
  return entry;
}

size_t RawClient::take_all() {
  size_t count = 0;
  for (; completions_.available() > 0; ++count) static_cast<void>(completions_.pop());
  completions_.publish();
  return count;
}

/// A last message, if there is one, is read first.
bool RawClient::has_hung_up() {
  char word[sizeof(channel::Goodbye)];
  pollfd waited{.fd = attachment_.control.fd.get(), .events = POLLIN, .revents = 0};
  return ::poll(&waited, 1, 0) > 0 && ::recv(waited.fd, word, sizeof word, MSG_DONTWAIT) == 0;
}

bool RawClient::await_hang_up() {
  return wait_until([&] { return has_hung_up(); });
}

}  // namespace lyre::test
