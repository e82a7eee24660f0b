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
constexpr size_t kPendingConnectionsMax = 256;

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
  std::vector<bool> is_hello_sent;
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
  listener->sockets_.resize(1u + mine.data_sockets);
  std::memset(handle, 0, nccl_abi::kHandleBytesMax);
  std::memcpy(handle, &mine, sizeof(mine));
  return listener;
}

void Listener::accept_pending() {
  while (pending_.size() < kPendingConnectionsMax) {
    PendingConnection pending;
    pending.fd = accept_from(fd_.get(), &pending.peer);
    if (!pending.fd.is_open()) return;
    pending_.push_back(std::move(pending));
  }
}

Listener::HelloProgress Listener::read_hello(PendingConnection* pending) {
  const ssize_t n =
      ::recv(pending->fd.get(), reinterpret_cast<uint8_t*>(&pending->hello) + pending->hello_bytes,
             sizeof(Hello) - pending->hello_bytes, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return HelloProgress::kMore;
  if (n <= 0) return HelloProgress::kRefused;
  pending->hello_bytes += static_cast<size_t>(n);
  if (pending->hello_bytes < sizeof(Hello)) return HelloProgress::kMore;
  return is_of_this_comm(pending->hello) ? HelloProgress::kComplete : HelloProgress::kRefused;
}

bool Listener::is_of_this_comm(const Hello& hello) const {
  return hello.magic == kMagic &&
         std::memcmp(hello.nonce, handle_.nonce, sizeof(hello.nonce)) == 0 &&
         hello.index < sockets_.size() && !sockets_[hello.index].is_open();
}

void Listener::adopt(PendingConnection* pending) {
  if (pending->hello.index == 0) peer_ = pending->peer;
  sockets_[pending->hello.index] = std::move(pending->fd);
}

bool Listener::is_complete() const {
  return std::all_of(sockets_.begin(), sockets_.end(), [](const Fd& fd) { return fd.is_open(); });
}

Result Listener::accept(Comm** out) {
  *out = nullptr;
  accept_pending();
  for (size_t i = 0; i < pending_.size();) {
    const HelloProgress progress = read_hello(&pending_[i]);
    if (progress == HelloProgress::kMore) {
      ++i;
      continue;
    }
    if (progress == HelloProgress::kComplete) {
      adopt(&pending_[i]);
    } else {
      warn("refused a connection from %s: not a peer of this comm",
           to_string(pending_[i].peer).c_str());
    }
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (!is_complete()) return Result::kSuccess;
  *out =
      new Comm(Direction::kReceive, to_comm_sockets(std::exchange(sockets_, {}), handle_, peer_));
  sockets_.resize(1u + handle_.data_sockets);
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
  state->is_hello_sent.resize(state->fds.size());
  handle->state = state.release();
  return Result::kSuccess;
}

// True when the socket is connected and its hello is sent.
bool greet(const Handle& handle, size_t index, ConnectState* state, Result* result) {
  if (state->is_hello_sent[index]) return true;
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
  state->is_hello_sent[index] = true;
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
