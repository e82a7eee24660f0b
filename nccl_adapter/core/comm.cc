#include "nccl_adapter/core/comm.h"

#include <algorithm>
#include <utility>

#include "nccl_adapter/core/frame.h"
#include "nccl_adapter/core/instance.h"
#include "nccl_adapter/core/log.h"
#include "nccl_adapter/core/status.h"

namespace lyre::nccl_adapter {

using nccl_abi::Result;

namespace {

constexpr uint32_t kQuietPumpsPerClockRead = 256;

}  // namespace

std::string Peer::describe() const {
  return "host " + host + " (" + address + "), process " + std::to_string(pid);
}

Comm::Comm(Instance* instance, Stream stream, Peer peer)
    : stream_(std::move(stream)), peer_(std::move(peer)), instance_(instance) {
  stream_.set_owner(this);
}

Comm::~Comm() = default;

Result Comm::post(void* data, uint64_t bytes, Request** out) {
  *out = nullptr;
  if (has_failed()) return report();
  Request* request = post_request(data, bytes);
  pump();
  // A failure that this pump met belongs to the request: test() will tell.
  *out = request;
  return Result::kSuccess;
}

Result Comm::test(Request* request, int* done, int* sizes) {
  *done = 0;
  if (request->state == Request::State::kFree) {
    log_warn("test() of a request that is not in use (it was done before)");
    return Result::kInvalidUsage;
  }
  if (request->state == Request::State::kActive) pump();
  if (request->state == Request::State::kDone) {
    *done = 1;
    if (sizes != nullptr) *sizes = static_cast<int>(request->bytes);
    release_request(request);
    return Result::kSuccess;
  }
  return has_failed() ? report() : Result::kSuccess;
}

Registration* Comm::add_registration(const void* data, uint64_t bytes) {
  registrations_.push_back(
      std::make_unique<Registration>(Registration{static_cast<const uint8_t*>(data), bytes}));
  return registrations_.back().get();
}

Result Comm::remove_registration(const Registration* registration) {
  const auto it = std::find_if(registrations_.begin(), registrations_.end(),
                               [&](const auto& own) { return own.get() == registration; });
  if (it == registrations_.end()) {
    log_warn("deregMr() of a handle that this comm does not know");
    return Result::kInvalidUsage;
  }
  // Memory is only touched inside calls, under the lock: letting go means not to touch it again.
  if (!has_failed() && touches(registration->base, registration->bytes)) {
    is_reported_ = true;  // the caller's own doing needs no warning
    fail(Result::kInternalError, "its memory was deregistered with requests in flight");
  }
  registrations_.erase(it);
  return Result::kSuccess;
}

void Comm::pump() {
  if (has_failed() || !stream_.is_open()) return;
  const bool in_moved = pump_in();
  if (has_failed()) return;
  const bool out_moved = pump_out();
  if (!has_failed()) keep_alive(in_moved || out_moved);
}

// A host that vanished acknowledges nothing; but one that waits for data sends nothing either. A
// ping gives the daemon's user timeout something to watch.
void Comm::keep_alive(bool moved) {
  if (moved || active() == 0) {
    quiet_since_ns_ = 0;
    quiet_pumps_ = 0;
    return;
  }
  if (quiet_since_ns_ != 0 && ++quiet_pumps_ < kQuietPumpsPerClockRead) return;
  quiet_pumps_ = 0;
  const int64_t now = now_ns();
  if (quiet_since_ns_ == 0) quiet_since_ns_ = now;
  const int64_t ping_after_ns = instance_->settings().peer_timeout_s * 1'000'000'000 / 3;
  if (now - quiet_since_ns_ < ping_after_ns || stream_.unacked_bytes() > 0) return;
  quiet_since_ns_ = now;
  uint8_t ping[kFrameHeaderBytes];
  encode({.type = FrameType::kPing}, ping);
  if (stream_.send_small(ping) == Io::kFailed) fail_with_stream_error();
}

void Comm::fail(Result result, std::string why) {
  if (has_failed()) return;
  result_ = result;
  why_ = std::move(why);
  if (active() > 0) {
    why_ += "; " + std::to_string(active()) + " requests with " +
            std::to_string(outstanding_bytes()) + " bytes outstanding";
  }
  stream_.abort();
}

void Comm::fail_with_stream_error() {
  const int code = stream_.error();
  if (instance_->note_daemon_error(code)) {
    fail(Result::kSystemError, "the Lyre daemon on this machine died or disconnected us");
    return;
  }
  fail(to_result(code), std::string("the connection ended: ") + lyre_strerror(code));
}

void Comm::on_stream_finished() {
  fail(Result::kRemoteError, "the connection ended without a goodbye: the process is gone");
}

// Nothing of ours is waited for over there, so this side may end in order too.
void Comm::on_bye() {
  stream_.close();
  fail(Result::kRemoteError, "the peer closed its end");
}

// Once a comm: NCCL stops at the first error, and tests may not.
Result Comm::report() {
  if (!is_reported_) {
    is_reported_ = true;
    log_warn("comm that %s %s: %s", direction_text(), peer_.describe().c_str(), why_.c_str());
  }
  return result_;
}

void Comm::begin_close() {
  if (!stream_.is_open()) return;
  pump();
  if (has_failed()) return;
  if (active() > 0) {
    stream_.abort();
    return;
  }
  uint8_t bye[kFrameHeaderBytes];
  encode({.type = FrameType::kBye}, bye);
  if (stream_.send_small(bye) == Io::kFailed) stream_.abort();
}

bool Comm::is_close_done() {
  if (!stream_.is_open() || stream_.state() == LYRE_ENDED) return true;
  const Io rest = stream_.flush();
  if (rest == Io::kFailed) return true;
  return rest == Io::kOk && stream_.unacked_bytes() == 0;
}

void Comm::finish_close() { stream_.close(); }

SendComm::SendComm(Instance* instance, Stream stream, Peer peer)
    : Comm(instance, std::move(stream), std::move(peer)), queue_(this) {}

bool SendComm::pump_out() {
  bool moved = false;
  SendQueue::Chunk chunk;
  while (queue_.next_chunk(kBlockBytes - kFrameHeaderBytes, &chunk)) {
    const Io io = stream_.send_chunk(chunk);
    if (io == Io::kFailed) fail_with_stream_error();
    if (io != Io::kOk) return moved;
    queue_.chunk_sent(chunk);
    moved = true;
  }
  if (stream_.flush() == Io::kFailed) fail_with_stream_error();
  return moved;
}

bool SendComm::pump_in() {
  bool moved = false;
  for (int round = 0; round < kTakeRoundsMax * kSlicesPerTake; ++round) {
    std::span<const uint8_t> bytes;
    const Io io = stream_.peek(&bytes);
    if (io == Io::kFailed) fail_with_stream_error();
    if (io == Io::kFinished) on_stream_finished();
    if (io != Io::kOk) return moved;
    moved = true;
    take(bytes);
    if (has_failed()) return moved;
    stream_.consume(bytes.size());
  }
  stream_.release();
  return moved;
}

void SendComm::take(std::span<const uint8_t> bytes) {
  while (!bytes.empty() && !has_failed()) {
    if (reader_.state() == FrameReader::State::kHeader && !reader_.take_header(&bytes)) {
      if (reader_.state() == FrameReader::State::kBroken) {
        fail(Result::kRemoteError, "the peer sent something that is no frame");
      }
      return;
    }
    // Only a failure has text behind it.
    const size_t text_bytes = std::min<size_t>(bytes.size(), reader_.payload_left());
    if (text_bytes > 0 && reader_.header().type == FrameType::kFail) {
      fail_text_.append(reinterpret_cast<const char*>(bytes.data()), text_bytes);
      reader_.payload_taken(static_cast<uint32_t>(text_bytes));
      bytes = bytes.subspan(text_bytes);
    }
    if (reader_.payload_left() > 0 && reader_.header().type == FrameType::kFail) return;
    on_frame();
    reader_.finish();
  }
}

void SendComm::on_frame() {
  const FrameHeader& header = reader_.header();
  switch (header.type) {
    case FrameType::kGrant:
      if (queue_.on_grant(header.message, header.offset)) return;
      break;
    case FrameType::kPing:
      return;
    case FrameType::kBye:
      on_bye();
      return;
    case FrameType::kFail:
      on_fail_frame();
      return;
    case FrameType::kData:
      break;
  }
  fail(Result::kRemoteError, "the peer broke the protocol");
}

void SendComm::on_fail_frame() {
  for (char& c : fail_text_) c = c >= 0x20 && c < 0x7f ? c : '?';
  fail(Result::kRemoteError, "the peer gave up: " + fail_text_);
}

RecvComm::RecvComm(Instance* instance, Stream stream, Peer peer)
    : Comm(instance, std::move(stream), std::move(peer)), queue_(this) {}

bool RecvComm::pump_in() {
  bool moved = false;
  for (int round = 0; round < kTakeRoundsMax * kSlicesPerTake; ++round) {
    std::span<const uint8_t> bytes;
    const Io io = stream_.peek(&bytes);
    // A frame that ended with the last slice may still wait for its receive.
    if (io != Io::kOk) {
      if (!on_verdict(queue_.take(&bytes))) return moved;
      if (io == Io::kFailed) fail_with_stream_error();
      if (io == Io::kFinished) on_stream_finished();
      return moved;
    }
    const size_t before_bytes = bytes.size();
    const ReceiveQueue::Verdict verdict = queue_.take(&bytes);
    if (bytes.size() < before_bytes) {
      moved = true;
      stream_.consume(before_bytes - bytes.size());
    }
    if (!on_verdict(verdict)) return moved;
  }
  stream_.release();
  return moved;
}

// True when more bytes may be offered.
bool RecvComm::on_verdict(ReceiveQueue::Verdict verdict) {
  switch (verdict) {
    case ReceiveQueue::Verdict::kMore:
      return true;
    case ReceiveQueue::Verdict::kBlocked:
      stream_.release();
      return false;
    case ReceiveQueue::Verdict::kTooLarge:
      refuse_large_message();
      return false;
    case ReceiveQueue::Verdict::kBroken:
      fail(Result::kRemoteError, "the peer broke the protocol");
      return false;
    case ReceiveQueue::Verdict::kBye:
      on_bye();
      return false;
  }
  return false;
}

void RecvComm::refuse_large_message() {
  const std::string what = "message " + std::to_string(queue_.header().message) + " has " +
                           std::to_string(queue_.header().message_bytes) +
                           " bytes, the receive posted for it " +
                           std::to_string(queue_.oldest_bytes());
  std::vector<uint8_t> frame(kFrameHeaderBytes + what.size());
  encode({.type = FrameType::kFail,
          .bytes = static_cast<uint32_t>(what.size()),
          .message = queue_.header().message},
         std::span<uint8_t, kFrameHeaderBytes>(frame.data(), kFrameHeaderBytes));
  std::copy(what.begin(), what.end(), frame.begin() + kFrameHeaderBytes);
  // The session ends in order so that the peer reads why.
  if (stream_.send_small(frame) == Io::kOk) stream_.close();
  fail(Result::kInvalidUsage, what);
}

bool RecvComm::pump_out() {
  if (queue_.has_news()) {
    uint8_t grant[kFrameHeaderBytes];
    encode(queue_.make_grant(), grant);
    if (stream_.send_small(grant) == Io::kFailed) fail_with_stream_error();
    return true;
  }
  if (stream_.flush() == Io::kFailed) fail_with_stream_error();
  return false;
}

}  // namespace lyre::nccl_adapter
