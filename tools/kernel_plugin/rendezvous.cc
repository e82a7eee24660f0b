#include "tools/kernel_plugin/rendezvous.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lyre::kernel_plugin {
namespace {

using nccl_abi::Result;

constexpr uint64_t kMagic = 0x6c6572656b747243;  // kernel plugin, first layout of handle and hello
constexpr size_t kVisitorsMax = 256;

CommSockets to_comm_sockets(std::vector<Fd> fds, const Handle& handle, const Endpoint& peer) {
  CommSockets sockets;
  sockets.control = std::move(fds.front());
  for (size_t i = 1; i < fds.size(); ++i) sockets.data.push_back(std::move(fds[i]));
  sockets.peer = peer;
  sockets.thread_count = handle.threads;
  return sockets;
}

}  // namespace

struct ConnectState {
  std::vector<Fd> fds;
  std::vector<bool> greeted;
};

std::unique_ptr<Listener> Listener::make(const Settings& settings, Handle* handle) {
  auto listener = std::make_unique<Listener>();
  Handle& mine = listener->handle_;
  listener->fd_ = listen_on(settings.address, &mine.endpoint);
  if (!listener->fd_.is_open()) {
    warn("cannot listen on %s: %s", settings.address.c_str(), std::strerror(errno));
    return nullptr;
  }
  mine.magic = kMagic;
  if (::getrandom(mine.nonce, sizeof(mine.nonce), 0) != sizeof(mine.nonce)) return nullptr;
  const bool striped = settings.socket_count > 1;
  mine.data_sockets = static_cast<uint16_t>(striped ? settings.socket_count : 0);
  mine.threads = static_cast<uint16_t>(settings.thread_count);
  listener->seats_.resize(1u + mine.data_sockets);
  std::memset(handle, 0, nccl_abi::kHandleBytesMax);
  std::memcpy(handle, &mine, sizeof(mine));
  return listener;
}

void Listener::take_visitors() {
  while (visitors_.size() < kVisitorsMax) {
    Visitor visitor;
    visitor.fd = accept_from(fd_.get(), &visitor.peer);
    if (!visitor.fd.is_open()) return;
    visitors_.push_back(std::move(visitor));
  }
}

Listener::HelloProgress Listener::read_hello(Visitor* visitor) {
  const ssize_t n =
      ::recv(visitor->fd.get(), reinterpret_cast<uint8_t*>(&visitor->hello) + visitor->hello_bytes,
             sizeof(Hello) - visitor->hello_bytes, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return HelloProgress::kMore;
  if (n <= 0) return HelloProgress::kRefused;
  visitor->hello_bytes += static_cast<size_t>(n);
  if (visitor->hello_bytes < sizeof(Hello)) return HelloProgress::kMore;
  return is_welcome(visitor->hello) ? HelloProgress::kComplete : HelloProgress::kRefused;
}

bool Listener::is_welcome(const Hello& hello) const {
  return hello.magic == kMagic &&
         std::memcmp(hello.nonce, handle_.nonce, sizeof(hello.nonce)) == 0 &&
         hello.index < seats_.size() && !seats_[hello.index].is_open();
}

void Listener::seat(Visitor* visitor) {
  if (visitor->hello.index == 0) peer_ = visitor->peer;
  seats_[visitor->hello.index] = std::move(visitor->fd);
}

bool Listener::is_complete() const {
  return std::all_of(seats_.begin(), seats_.end(), [](const Fd& fd) { return fd.is_open(); });
}

Result Listener::accept(Comm** out) {
  *out = nullptr;
  take_visitors();
  for (size_t i = 0; i < visitors_.size();) {
    const HelloProgress progress = read_hello(&visitors_[i]);
    if (progress == HelloProgress::kMore) {
      ++i;
      continue;
    }
    if (progress == HelloProgress::kComplete) {
      seat(&visitors_[i]);
    } else {
      warn("refused a connection from %s: not a peer of this comm",
           to_string(visitors_[i].peer).c_str());
    }
    visitors_.erase(visitors_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (!is_complete()) return Result::kSuccess;
  *out = new Comm(Direction::kReceive, to_comm_sockets(std::exchange(seats_, {}), handle_, peer_));
  seats_.resize(1u + handle_.data_sockets);
  return Result::kSuccess;
}

namespace {

Result start(Handle* handle) {
  if (handle->magic != kMagic || handle->data_sockets > kDataSocketsMax ||
      handle->threads > kHelperThreadsMax) {
    warn("the peer's handle is not one of this plugin: does every rank use it?");
    return Result::kInvalidUsage;
  }
  auto state = std::make_unique<ConnectState>();
  for (int i = 0; i < 1 + handle->data_sockets; ++i) {
    Fd fd = start_connect(handle->endpoint);
    if (!fd.is_open()) {
      warn("cannot connect to %s: %s", to_string(handle->endpoint).c_str(), std::strerror(errno));
      return Result::kRemoteError;
    }
    state->fds.push_back(std::move(fd));
  }
  state->greeted.resize(state->fds.size());
  handle->state = state.release();
  return Result::kSuccess;
}

// True when the socket is connected and its hello is sent.
bool greet(const Handle& handle, size_t index, ConnectState* state, Result* result) {
  if (state->greeted[index]) return true;
  const int fd = state->fds[index].get();
  const ConnectProgress progress = check_connected(fd);
  if (progress == ConnectProgress::kPending) return false;
  Hello hello{.magic = kMagic, .nonce = {}, .index = static_cast<uint32_t>(index), .reserved = 0};
  std::memcpy(hello.nonce, handle.nonce, sizeof(hello.nonce));
  // A fresh socket's buffer always has room for 32 bytes.
  if (progress == ConnectProgress::kFailed ||
      ::send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
    warn("cannot connect to %s: %s", to_string(handle.endpoint).c_str(), std::strerror(errno));
    *result = Result::kRemoteError;
    return false;
  }
  state->greeted[index] = true;
  return true;
}

}  // namespace

Result connect_to(Handle* handle, Comm** out) {
  *out = nullptr;
  if (handle->state == nullptr) {
    if (const Result result = start(handle); result != Result::kSuccess) return result;
  }
  ConnectState* state = handle->state;
  bool complete = true;
  Result result = Result::kSuccess;
  for (size_t i = 0; i < state->fds.size() && result == Result::kSuccess; ++i) {
    complete = greet(*handle, i, state, &result) && complete;
  }
  if (!complete && result == Result::kSuccess) return result;
  std::unique_ptr<ConnectState> finished(std::exchange(handle->state, nullptr));
  if (result != Result::kSuccess) return result;
  *out = new Comm(Direction::kSend,
                  to_comm_sockets(std::move(finished->fds), *handle, handle->endpoint));
  return result;
}

}  // namespace lyre::kernel_plugin
