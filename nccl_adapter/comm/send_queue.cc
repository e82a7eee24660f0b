#include "nccl_adapter/comm/send_queue.h"

#include <algorithm>

namespace lyre::nccl_adapter {

Request* SendQueue::post(const void* data, uint64_t bytes) {
  // Requests of both directions share one type; a send's data is only read.
  Request* request = requests_.post(const_cast<void*>(data), bytes);
  if (request != nullptr) keep(requests_.posted() - 1);
  return request;
}

// If the message is small, and placed is what had its place in kept_ before.
void SendQueue::keep(uint64_t message) {
  Request* request = &requests_.at(message);
  const bool is_small = keeps_small_ && request->bytes < kZeroCopyBytesMin;
  const bool has_place = message - requests_.finished() < kKeptSends;
  if (!is_small || !has_place || request->is_kept) return;
  request->is_kept = true;
  if (request->bytes == 0) return;
  if (kept_ == nullptr) {
    kept_ = std::make_unique_for_overwrite<uint8_t[]>(kKeptSends * kZeroCopyBytesMin);
  }
  uint8_t* copy = kept_.get() + message % kKeptSends * kZeroCopyBytesMin;
  std::copy_n(request->data, request->bytes, copy);
  request->data = copy;
  request->memory = nullptr;
  copied_bytes_ += request->bytes;
}

uint64_t SendQueue::eager_bytes_left() const { return kEagerBytes - eager_sent_bytes_; }

Chunk SendQueue::make_chunk(uint64_t message, uint64_t offset, uint64_t bytes) const {
  const Request& request = requests_.at(message);
  // Without payload the region is not looked at: memory of a message without bytes may be
  // deregistered while the message waits.
  const bool has_region = bytes > 0 && request.memory != nullptr;
  return {.header = {.type = FrameType::kData,
                     .bytes = static_cast<uint32_t>(bytes),
                     .message = message,
                     .message_bytes = request.bytes,
                     .offset = offset},
          .data = request.data + offset,
          .region = has_region ? request.memory->region : nullptr,
          .memory = has_region ? request.memory : nullptr};
}

bool SendQueue::next_chunk(size_t streams, uint64_t piece_bytes_max, Chunk* out) const {
  // Lost frames come first: no later message can be finished without them.
  if (!again_.empty()) {
    const SentChunk& lost = again_.back();
    *out = make_chunk(lost.message, lost.offset, lost.bytes);
    out->is_again = true;
    out->written_over = lost.written_over;
    return true;
  }
  if (cursor_ == requests_.posted()) return false;
  const Request& request = requests_.at(cursor_);
  const uint64_t left = request.bytes - request.moved_bytes;
  uint64_t most = std::clamp<uint64_t>((request.bytes + streams - 1) / streams, kStripeBytesMin,
                                       kChunkCutBytesMax);
  if (request.bytes > kStripeBytesMin) most = std::min(most, piece_bytes_max);
  most -= most % kCutBytes;
  // Even pieces: a message a little longer than a block must not end in a tiny packet.
  const uint64_t pieces = left == 0 ? 1 : (left + most - 1) / most;
  uint64_t bytes = (left + pieces - 1) / pieces;
  bytes = std::min(left, (bytes + kCutBytes - 1) / kCutBytes * kCutBytes);
  if (cursor_ >= granted_) {
    bytes = std::min(bytes, eager_bytes_left());
    if (bytes < left) bytes -= bytes % kCutBytes;
    if (bytes == 0 && left > 0) return false;
  }
  *out = make_chunk(cursor_, request.moved_bytes, bytes);
  return true;
}

void SendQueue::chunk_sent(const Chunk& chunk, bool is_lasting) {
  if (chunk.is_again) {
    again_.pop_back();
    return;
  }
  Request& request = requests_.at(cursor_);
  request.moved_bytes += chunk.header.bytes;
  if (cursor_ >= granted_) eager_sent_bytes_ += chunk.header.bytes;
  if (!is_lasting) request.is_in_queue_pair = true;
  if (request.moved_bytes == request.bytes) ++cursor_;
  let_go();
}

void SendQueue::send_again(const SentChunk& sent) {
  if (sent.message < requests_.finished()) return;
  const auto place = std::find_if(again_.begin(), again_.end(), [&](const SentChunk& other) {
    return other.message < sent.message ||
           (other.message == sent.message && other.offset < sent.offset);
  });
  again_.insert(place, sent);
}

bool SendQueue::on_grant(uint64_t placed, uint64_t posted) {
  if (placed > cursor_ || posted < placed) return false;
  for (; granted_ < posted; ++granted_) {
    if (granted_ > cursor_ || granted_ >= requests_.posted()) {
      granted_ = posted;  // nothing of those was sent yet
      break;
    }
    eager_sent_bytes_ -= requests_.at(granted_).moved_bytes;
  }
  while (requests_.finished() < placed) requests_.finish_oldest();
  while (!again_.empty() && again_.back().message < placed) again_.pop_back();
  let_go();
  return true;
}

// In order: a small message behind a large one waits for that. What found no place before may have
// one now.
void SendQueue::let_go() {
  for (let_go_ = std::max(let_go_, requests_.finished()); let_go_ < cursor_; ++let_go_) {
    keep(let_go_);
    Request& request = requests_.at(let_go_);
    if (!request.is_kept || request.is_in_queue_pair) return;
    request.state = Request::State::kLetGo;
  }
}

bool SendQueue::waits_for_room() const {
  return !again_.empty() || (cursor_ < requests_.posted() && cursor_ < granted_);
}

bool SendQueue::waits_for_credit() const {
  return again_.empty() && cursor_ < requests_.posted() && cursor_ >= granted_;
}

}  // namespace lyre::nccl_adapter
