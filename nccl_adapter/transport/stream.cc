#include "nccl_adapter/transport/stream.h"

#include <cstring>
#include <utility>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/protocol/frame.h"

namespace lyre::nccl_adapter {

Stream::Stream(Stream&& other) noexcept { *this = std::move(other); }

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this == &other) return *this;
  abort();
  Transport::operator=(std::move(other));
  session_ = std::exchange(other.session_, nullptr);
  error_ = other.error_;
  is_sending_over_ = other.is_sending_over_;
  unsent_ = std::move(other.unsent_);
  parked_ = std::exchange(other.parked_, lyre_block{});
  parked_bytes_ = std::exchange(other.parked_bytes_, 0);
  parked_region_ = std::exchange(other.parked_region_, nullptr);
  parked_data_ = other.parked_data_;
  parked_data_bytes_ = other.parked_data_bytes_;
  return *this;
}

int Stream::error() const {
  // The error of the session is more specific than that of the call that met it.
  const int ended_with = session_ == nullptr ? 0 : lyre_session_error(session_);
  return ended_with != 0 ? ended_with : error_;
}

const char* Stream::error_text() const {
  const int ended_with = session_ == nullptr ? 0 : lyre_session_error(session_);
  return ended_with != 0 ? lyre_last_error() : lyre_strerror(error_);
}

lyre_addr Stream::local() const {
  lyre_addr local{};
  lyre_addr remote{};
  lyre_session_addrs(session_, &local, &remote);
  return local;
}

lyre_addr Stream::remote() const {
  lyre_addr local{};
  lyre_addr remote{};
  lyre_session_addrs(session_, &local, &remote);
  return remote;
}

Io Stream::fail(int64_t code) {
  if (error_ == 0) error_ = static_cast<int>(code);
  return Io::kFailed;
}

void Stream::count_copied(uint64_t bytes) {
  Transport::count_copied(bytes);
  lyre_count_copied(session_, 0, bytes);
}

bool Stream::has_read_right() {
  const int code = lyre_check_slices(session_);
  if (code < 0) fail(code);
  return code == 0;
}

Io Stream::send_small(std::span<const uint8_t> bytes) {
  if (is_sending_over_) return Io::kOk;
  unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
  return flush() == Io::kFailed ? Io::kFailed : Io::kOk;
}

Io Stream::flush() {
  if (parked_bytes_ > 0) {
    const int code = lyre_send_block(session_, &parked_, parked_bytes_, 0);
    if (code == LYRE_E_AGAIN) return Io::kAgain;
    if (code < 0) return fail(code);
    sent_bytes_ += std::exchange(parked_bytes_, 0);
  }
  if (parked_region_ != nullptr) {
    const int code =
        lyre_send_region(session_, parked_region_, parked_data_, parked_data_bytes_, 0);
    if (code == LYRE_E_AGAIN) return Io::kAgain;
    if (code < 0) return fail(code);
    sent_bytes_ += parked_data_bytes_;
    parked_region_ = nullptr;
  }
  size_t sent = 0;
  while (sent < unsent_.size()) {
    const int64_t n = lyre_send(session_, unsent_.data() + sent, unsent_.size() - sent);
    if (n == LYRE_E_AGAIN || n == 0) break;
    if (n < 0) return fail(n);
    sent += static_cast<size_t>(n);
  }
  sent_bytes_ += sent;
  if (sent > 0) unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<ptrdiff_t>(sent));
  return unsent_.empty() ? Io::kOk : Io::kAgain;
}

Io Stream::send_chunk(const Chunk& chunk) {
  const Io before = flush();
  if (before != Io::kOk) return before;
  const bool is_in_place = chunk.region != nullptr && chunk.header.bytes >= kZeroCopyBytesMin;
  return is_in_place ? send_in_place(chunk) : send_copied(chunk);
}

Io Stream::send_in_place(const Chunk& chunk) {
  const Io header = send_copied({.header = chunk.header, .data = nullptr});
  if (header != Io::kOk) return header;
  parked_region_ = chunk.region;
  parked_data_ = chunk.data;
  parked_data_bytes_ = chunk.header.bytes;
  return flush() == Io::kFailed ? Io::kFailed : Io::kOk;
}

Io Stream::send_copied(const Chunk& chunk) {
  const size_t payload_bytes = chunk.data != nullptr ? chunk.header.bytes : 0;
  const size_t bytes = kFrameHeaderBytes + payload_bytes;
  lyre_block block;
  int code = lyre_block_alloc(lyre_session_context(session_), bytes, &block);
  if (code == LYRE_E_AGAIN) return Io::kAgain;
  if (code < 0) return fail(code);
  auto* out = static_cast<uint8_t*>(block.data);
  encode(chunk.header, std::span<uint8_t, kFrameHeaderBytes>(out, kFrameHeaderBytes));
  if (payload_bytes > 0) {
    std::memcpy(out + kFrameHeaderBytes, chunk.data, payload_bytes);
    lyre_count_copied(session_, payload_bytes, 0);
    copied_bytes_ += payload_bytes;
  }
  code = lyre_send_block(session_, &block, bytes, 0);
  if (code == LYRE_E_AGAIN) {
    parked_ = block;  // filled once is enough: it goes with the next flush
    parked_bytes_ = bytes;
    return Io::kOk;
  }
  if (code < 0) {
    lyre_block_free(lyre_session_context(session_), &block);
    return fail(code);
  }
  sent_bytes_ += bytes;
  return Io::kOk;
}

void Stream::probe_silence(bool is_wanted) {
  // A failure here is returned by the next call on the session.
  lyre_set_option(session_, LYRE_OPTION_KEEPALIVE_INTERVAL_MS, kProbeMs);
  lyre_set_option(session_, LYRE_OPTION_KEEPALIVE_PROBES, kProbesMax);
  lyre_set_option(session_, LYRE_OPTION_KEEPALIVE_IDLE_MS, is_wanted ? kProbeMs : 0);
}

void Stream::limit_silence(uint32_t silence_ms) {
  lyre_set_option(session_, LYRE_OPTION_USER_TIMEOUT_MS, silence_ms);  // a failure: as above
}

Io Stream::take_slices(std::span<lyre_slice> out, size_t* count) {
  const int n = lyre_recv_slices(session_, out.data(), static_cast<int>(out.size()));
  if (n == LYRE_E_AGAIN) return Io::kAgain;
  if (n == 0) return Io::kFinished;
  if (n < 0) return fail(n);
  *count = static_cast<size_t>(n);
  return Io::kOk;
}

void Stream::give_back(std::span<const lyre_slice> slices) {
  lyre_release(session_, slices.data(), static_cast<int>(slices.size()));
}

void Stream::drop_parked() {
  parked_region_ = nullptr;
  if (parked_bytes_ == 0) return;
  lyre_block_free(lyre_session_context(session_), &parked_);
  parked_bytes_ = 0;
}

// A failure is that of a session that has ended, which the next read tells.
void Stream::end_sending() { is_sending_over_ = lyre_shutdown(session_) == 0; }

void Stream::close() {
  if (session_ == nullptr) return;
  release_all();
  drop_parked();
  lyre_close(std::exchange(session_, nullptr));
}

void Stream::abort() {
  if (session_ == nullptr) return;
  release_all();
  drop_parked();
  lyre_abort(std::exchange(session_, nullptr));
}

}  // namespace lyre::nccl_adapter
