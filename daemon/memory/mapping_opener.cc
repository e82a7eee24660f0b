#include "daemon/memory/mapping_opener.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/errno_error.h"
#include "daemon/base/watch.h"
#include "daemon/memory/mapping_helper.h"
#include "daemon/memory/mapping_protocol.h"
#include "daemon/protocol/control_message.h"

namespace lyre {
namespace {

constexpr const char* kIsSilent = "the memory helper does not answer";
constexpr const char* kIsCopied =
    "shared anonymous memory of clients is copied from now on, until the daemon is restarted";

MappingHeader header_of(MappingAction action, size_t bytes, uint64_t id) {
  return {.version = kMappingVersion,
          .bytes = static_cast<uint16_t>(bytes),
          .action = action,
          .id = id};
}

/// A reply with kMappingHelperId.
void log_of_helper(const MappingReply& reply) {
  if (reply.error == 0) return spdlog::info("the memory helper has release {}", reply.text);
  spdlog::warn("the memory helper was not replaced, and goes on: {}", reply.text);
}

}  // namespace

Result<MappingHelperProcess> MappingHelperProcess::start(const std::string& program,
                                                         MappingOpen open) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_error("no socket for the memory helper");
  }
  OwnedFd own(ends[0]);
  OwnedFd others(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error("no process for the memory helper");
  if (pid == 0) run_mapping_helper(std::move(others), open, program);  // which closes `own`
  return MappingHelperProcess(std::move(own), pid);
}

MappingHelperProcess& MappingHelperProcess::operator=(MappingHelperProcess&& other) noexcept {
  if (this == &other) return *this;
  end();
  socket_ = std::move(other.socket_);
  pid_ = std::exchange(other.pid_, -1);
  return *this;
}

void MappingHelperProcess::end() {
  socket_.reset();
  if (pid_ <= 0) return;
  if (!await_end(kMappingHelperEnd)) {
    ::kill(pid_, SIGKILL);
    await_end(kMappingHelperEnd);  // one that the system does not end is left to it
  }
  pid_ = -1;
}

/// Not by a pidfd: systems without them serve shared anonymous memory, too.
bool MappingHelperProcess::await_end(Nanos limit) const {
  const Nanos deadline = monotonic_now() + limit;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (monotonic_now() >= deadline) return false;
    ::usleep(kMappingHelperEndLookUs);
  }
  return true;
}

MappingOpener::MappingOpener(boost::asio::io_context& io, MappingHelperProcess helper,
                             Nanos patience)
    : socket_(io), overdue_(io), look_again_(io), patience_(patience) {
  const Status used = use(std::move(helper));
  if (!used.ok()) spdlog::error("{}: {}", used.error().text, kIsCopied);
}

Status MappingOpener::use(MappingHelperProcess helper) {
  if (!helper.is_running()) return Ok{};
  if (!watch_borrowed(socket_, helper.socket())) {
    return Error{ENOSPC, std::string("the memory helper: ") + kNoMoreWatches};
  }
  helper_ = std::move(helper);
  wait_for_reply();
  return Ok{};
}

MappingOpener::~MappingOpener() {
  if (socket_.is_open()) socket_.release();  // it belongs to `helper_`
}

uint64_t MappingOpener::open(int client_socket, uint64_t user, const ForeignMapping& mapping,
                             Done done) {
  const uint64_t id = next_id_++;
  waiting_.emplace(id, Request{.client_socket = client_socket,
                               .user = user,
                               .mapping = mapping,
                               .done = std::move(done)});
  send_waiting();
  return id;
}

void MappingOpener::send_waiting() {
  if (!helper_.is_running()) {
    return answer_all(std::exchange(waiting_, {}),
                      {EPIPE, "the daemon's memory helper is not there"});
  }
  for (auto next = next_waiting(); next != waiting_.end(); next = next_waiting()) {
    const auto& [id, request] = *next;
    const MappingRequest message{
        .header = header_of(MappingAction::kOpen, sizeof(MappingRequest), id),
        .begin = request.mapping.begin,
        .end = request.mapping.end};
    const Status sent =
        send_packet(helper_.socket(), bytes_of(message), std::span(&request.client_socket, 1));
    auto node = waiting_.extract(next);
    if (sent.ok()) {
      node.mapped().due = monotonic_now() + patience_;
      sent_.insert(std::move(node));
    } else {
      Requests failed;
      failed.insert(std::move(node));
      answer_all(std::move(failed), sent.error());
    }
  }
  fail_stuck();
  watch_oldest();
}

void MappingOpener::replace_helper() {
  if (!helper_.is_running()) return;
  const MappingHeader request =
      header_of(MappingAction::kReplace, sizeof(MappingHeader), kMappingHelperId);
  const Status sent = send_packet(helper_.socket(), bytes_of(request), {});
  if (!sent.ok()) spdlog::warn("the memory helper was not replaced: {}", sent.error().text);
}

void MappingOpener::refuse_waiting() {
  answer_all(std::exchange(waiting_, {}), {EAGAIN, "the daemon is being replaced"});
}

void MappingOpener::watch_oldest() {
  if (is_watching_) return;
  Nanos first{INT64_MAX};
  for (const auto& [id, request] : sent_) {
    if (!request.is_answered) first = std::min(first, request.due);
  }
  if (first.value == INT64_MAX) return;
  is_watching_ = true;
  const Nanos left = first - monotonic_now();
  overdue_.expires_after(std::chrono::nanoseconds(std::max<int64_t>(left.value, 0)));
  overdue_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    is_watching_ = false;
    fail_overdue();
    watch_oldest();
  });
}

/// Such a request keeps its place and its client's connection until the helper answers.
void MappingOpener::fail_overdue() {
  const Nanos now = monotonic_now();
  std::vector<Done> overdue;
  for (auto& [id, request] : sent_) {
    if (request.is_answered || request.due > now) continue;
    request.is_answered = true;
    overdue.push_back(request.done);
  }
  fail_stuck();
  for (const Done& done : overdue) done(Error{ETIMEDOUT, kIsSilent});
}

/// Those that wait for a place which perhaps never becomes free.
void MappingOpener::fail_stuck() {
  const bool is_full = sent_.size() >= kMappingRequestsMax && are_overdue(std::nullopt);
  Requests stuck;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto request = next++;
    const uint64_t user = request->second.user;
    const bool has_places = sent_count_of(user) < kRequestsOfUserMax || !are_overdue(user);
    if (is_full || !has_places) stuck.insert(waiting_.extract(request));
  }
  answer_all(std::move(stuck), {ETIMEDOUT, kIsSilent});
}

/// All requests at the helper, or all of this user.
bool MappingOpener::are_overdue(const std::optional<uint64_t>& user) const {
  return std::ranges::all_of(sent_, [&user](const auto& entry) {
    return entry.second.is_answered || (user && entry.second.user != *user);
  });
}

/// Of those whose user may have one more at the helper, the oldest of the user with fewest there.
MappingOpener::Requests::iterator MappingOpener::next_waiting() {
  if (sent_.size() >= kMappingRequestsMax || waiting_.empty()) return waiting_.end();
  const auto next = std::ranges::min_element(
      waiting_, {}, [this](const auto& entry) { return sent_count_of(entry.second.user); });
  return sent_count_of(next->second.user) < kRequestsOfUserMax ? next : waiting_.end();
}

size_t MappingOpener::sent_count_of(uint64_t user) const {
  return static_cast<size_t>(std::ranges::count_if(
      sent_, [user](const auto& entry) { return entry.second.user == user; }));
}

void MappingOpener::wait_for_reply() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const boost::system::error_code& error) {
                       if (error) return;
                       switch (take_reply()) {
                         case Reply::kTaken:
                           return wait_for_reply();
                         case Reply::kLeft:
                           return look_again_later();
                         case Reply::kNoHelper:
                           return give_up();
                       }
                     });
}

void MappingOpener::look_again_later() {
  look_again_.expires_after(std::chrono::milliseconds(100));
  look_again_.async_wait([this](const boost::system::error_code& error) {
    if (!error) wait_for_reply();
  });
}

/// Where no number is left for its descriptor, a reply is left in the socket: taken without one it
/// might be the last of its memory, which would be freed in this thread.
MappingOpener::Reply MappingOpener::take_reply() {
  MappingReply reply{};
  auto packet =
      receive_packet(helper_.socket(), std::span(reinterpret_cast<uint8_t*>(&reply), sizeof reply));
  if (!packet.ok()) {
    const int code = packet.error().code;
    return code == EAGAIN || code == EINTR ? Reply::kTaken : Reply::kNoHelper;
  }
  if (packet.value().bytes < offsetof(MappingReply, text)) return Reply::kNoHelper;
  if (packet.value().is_out_of_descriptors) return Reply::kLeft;
  reply.text[sizeof reply.text - 1] = '\0';
  if (reply.id == kMappingHelperId) {
    log_of_helper(reply);
    return Reply::kTaken;
  }
  auto answered = sent_.extract(reply.id);
  if (answered.empty()) return Reply::kTaken;
  send_waiting();
  if (answered.mapped().is_answered) return Reply::kTaken;
  const Done& done = answered.mapped().done;
  if (reply.error == 0 && packet.value().descriptor.is_open()) {
    done(std::move(packet.value().descriptor));
  } else {
    done(Error{reply.error != 0 ? reply.error : EIO, reply.text});
  }
  return Reply::kTaken;
}

/// It cannot be started again: this process has no capability left to give it.
void MappingOpener::give_up() {
  spdlog::error("the memory helper has ended: {}", kIsCopied);
  socket_.release();
  helper_.end();
  Requests all = std::exchange(sent_, {});
  all.merge(waiting_);
  answer_all(std::move(all), {EPIPE, "the daemon's memory helper has ended"});
}

/// Posted, not called here: the caller has to get the request's name first.
void MappingOpener::answer_all(Requests requests, const Error& error) {
  if (requests.empty()) return;
  boost::asio::post(socket_.get_executor(), [all = std::move(requests), error] {
    for (const auto& [id, request] : all) {
      if (!request.is_answered) request.done(error);
    }
  });
}

}  // namespace lyre
