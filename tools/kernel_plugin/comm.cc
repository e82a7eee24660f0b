#include "tools/kernel_plugin/comm.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/kernel_plugin/settings.h"

namespace lyre::kernel_plugin {
namespace {

using nccl_abi::Result;

constexpr size_t kHeaderBytes = sizeof(uint64_t);
constexpr size_t kInlineBytesMax = 4096;      // larger messages use the data sockets
constexpr size_t kPieceBytesMin = 64 * 1024;  // NCCL_SOCKET_MIN_TASKSIZE
constexpr size_t kSendPartsMax = 2 * nccl_abi::kRequestsMax;

bool would_block(ssize_t n) { return n < 0 && (errno == EAGAIN || errno == EINTR); }

}  // namespace

Comm::Comm(Direction direction, CommSockets sockets)
    : direction_(direction), control_(std::move(sockets.control)), peer_(sockets.peer) {
  for (Request& request : requests_) request.comm = this;
  for (Fd& fd : sockets.data) lanes_.push_back(std::make_unique<Lane>(std::move(fd)));
  const size_t helper_count = std::min(static_cast<size_t>(sockets.thread_count), lanes_.size());
  for (size_t i = 0; i < helper_count; ++i) {
    std::vector<Lane*> mine;
    for (size_t lane = i; lane < lanes_.size(); lane += helper_count) {
      mine.push_back(lanes_[lane].get());
    }
    helpers_.push_back(std::make_unique<Helper>(std::move(mine), direction, &failure_));
  }
}

Result Comm::post(Direction direction, void* data, size_t bytes, Request** out) {
  *out = nullptr;
  if (direction != direction_) return Result::kInvalidUsage;
  Request& request = at(posted_);
  if (request.in_use) return Result::kSuccess;
  request.data = static_cast<uint8_t*>(data);
  request.bytes = bytes;
  request.header = bytes;
  request.control_offset = 0;
  request.control_done = false;
  request.pieces_left.store(0, std::memory_order_relaxed);
  request.in_use = true;
  ++posted_;
  if (direction_ == Direction::kSend && !is_inline(bytes)) dispatch(request);
  pump();
  *out = &request;
  return Result::kSuccess;
}

Result Comm::test(Request* request, int* done, int* sizes) {
  *done = 0;
  if (!request->in_use) return Result::kInvalidUsage;
  if (!is_complete(*request)) pump();
  if (is_complete(*request)) {
    *done = 1;
    if (sizes != nullptr) *sizes = static_cast<int>(request->bytes);
    request->in_use = false;
    return Result::kSuccess;
  }
  return report_failure();
}

void Comm::quiesce() {
  const bool busy = std::any_of(requests_.begin(), requests_.end(),
                                [](const Request& request) { return request.in_use; });
  if (!busy) return;
  failure_.set(ECANCELED);
  failure_reported_ = true;  // an error of the caller
  helpers_.clear();
}

bool Comm::is_inline(size_t bytes) const { return lanes_.empty() || bytes <= kInlineBytesMax; }

bool Comm::is_complete(const Request& request) const {
  // pairs with the release in Lane::progress
  return request.control_done && request.pieces_left.load(std::memory_order_acquire) == 0;
}

// Both sides compute the same division among the lanes from the size.
void Comm::dispatch(Request& request) {
  const size_t even = (request.bytes + lanes_.size() - 1) / lanes_.size();
  const size_t piece_bytes = std::max(kPieceBytesMin, even);
  const size_t count = (request.bytes + piece_bytes - 1) / piece_bytes;
  request.pieces_left.store(static_cast<int>(count), std::memory_order_relaxed);
  for (size_t i = 0; i < count; ++i) {
    const size_t offset = i * piece_bytes;
    lanes_[next_lane_]->push({request.data + offset, std::min(piece_bytes, request.bytes - offset),
                              &request.pieces_left});
    next_lane_ = (next_lane_ + 1) % lanes_.size();
  }
  for (auto& helper : helpers_) helper->wake();
}

void Comm::pump() {
  if (failure_.code.load(std::memory_order_relaxed) != 0 || oversized_) return;
  if (direction_ == Direction::kSend) {
    pump_send();
  } else {
    pump_receive();
  }
}

size_t Comm::collect_send_parts(iovec* parts, size_t parts_max) {
  size_t count = 0;
  for (uint32_t i = current_; i != posted_ && count + 2 <= parts_max; ++i) {
    Request& request = at(i);
    const size_t body_bytes = is_inline(request.bytes) ? request.bytes : 0;
    const size_t offset = request.control_offset;
    if (offset < kHeaderBytes) {
      parts[count++] = {reinterpret_cast<uint8_t*>(&request.header) + offset,
                        kHeaderBytes - offset};
    }
    const size_t body_offset = offset > kHeaderBytes ? offset - kHeaderBytes : 0;
    if (body_offset < body_bytes) {
      parts[count++] = {request.data + body_offset, body_bytes - body_offset};
    }
  }
  return count;
}

void Comm::account_sent(size_t bytes) {
  while (current_ != posted_) {
    Request& request = at(current_);
    const size_t total = kHeaderBytes + (is_inline(request.bytes) ? request.bytes : 0);
    const size_t step = std::min(bytes, total - request.control_offset);
    request.control_offset += step;
    bytes -= step;
    if (request.control_offset < total) return;
    finish_control(request);
  }
}

void Comm::finish_control(Request& request) {
  request.control_done = true;
  ++current_;
}

void Comm::pump_send() {
  while (current_ != posted_) {
    iovec parts[kSendPartsMax];
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = collect_send_parts(parts, kSendPartsMax);
    const ssize_t n = ::sendmsg(control_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (would_block(n)) return;
    if (n < 0) return failure_.set(errno);
    account_sent(static_cast<size_t>(n));
  }
}

// True when header_ holds the size of the message for requests_[current_].
bool Comm::take_header() {
  if (header_bytes_ == kHeaderBytes) return true;
  const ssize_t n = ::recv(control_.get(), reinterpret_cast<uint8_t*>(&header_) + header_bytes_,
                           kHeaderBytes - header_bytes_, MSG_DONTWAIT);
  if (would_block(n)) return false;
  if (n <= 0) {
    failure_.set(n == 0 ? Failure::kPeerClosed : errno);
    return false;
  }
  header_bytes_ += static_cast<size_t>(n);
  return header_bytes_ == kHeaderBytes;
}

void Comm::pump_receive() {
  while (current_ != posted_) {
    Request& request = at(current_);
    if (request.control_offset == 0) {
      if (!take_header()) return;
      header_bytes_ = 0;
      if (header_ > request.bytes) {
        oversized_ = true;
        return;
      }
      request.bytes = header_;
      request.control_offset = kHeaderBytes;
      if (!is_inline(request.bytes)) dispatch(request);
    }
    const size_t body_bytes = is_inline(request.bytes) ? request.bytes : 0;
    const size_t body_offset = request.control_offset - kHeaderBytes;
    if (body_offset == body_bytes) {
      finish_control(request);
      continue;
    }
    // One system call also reads the next header.
    iovec parts[2] = {{request.data + body_offset, body_bytes - body_offset},
                      {&header_, kHeaderBytes}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t n = ::recvmsg(control_.get(), &message, MSG_DONTWAIT);
    if (would_block(n)) return;
    if (n <= 0) return failure_.set(n == 0 ? Failure::kPeerClosed : errno);
    const size_t got = static_cast<size_t>(n);
    const size_t body = std::min(got, body_bytes - body_offset);
    request.control_offset += body;
    header_bytes_ = got - body;
  }
}

Result Comm::report_failure() {
  const std::string peer = to_string(peer_);
  if (oversized_) {
    warn("peer %s sent a message of %llu bytes, more than the receive posted for it", peer.c_str(),
         static_cast<unsigned long long>(header_));
    return Result::kInvalidUsage;
  }
  const int code = failure_.code.load(std::memory_order_relaxed);
  if (code == 0) return Result::kSuccess;
  if (!failure_reported_) {
    failure_reported_ = true;
    warn("connection with %s failed: %s", peer.c_str(),
         code == Failure::kPeerClosed ? "closed by the peer" : std::strerror(code));
  }
  return Result::kRemoteError;
}

}  // namespace lyre::kernel_plugin
