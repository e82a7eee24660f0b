#include "nccl_adapter/core/send_queue.h"

#include <algorithm>

namespace lyre::nccl_adapter {

Request* SendQueue::post(const void* data, uint64_t bytes) {
  // Requests of both directions share one type; a send's data is only read.
  return requests_.post(const_cast<void*>(data), bytes);
}

uint64_t SendQueue::eager_bytes_left() const { return kEagerBytes - eager_sent_bytes_; }

bool SendQueue::next_chunk(size_t payload_bytes_max, Chunk* out) const {
  if (cursor_ == requests_.posted()) return false;
  const Request& request = requests_.at(cursor_);
  const uint64_t left = request.bytes - request.moved_bytes;
  // Even pieces: a message a little longer than a block must not end in a tiny packet.
  const uint64_t pieces = left == 0 ? 1 : (left + payload_bytes_max - 1) / payload_bytes_max;
  uint64_t bytes = (left + pieces - 1) / pieces;
  if (cursor_ >= granted_) {
    bytes = std::min(bytes, eager_bytes_left());
    if (bytes == 0 && left > 0) return false;
  }
  out->header = {.type = FrameType::kData,
                 .bytes = static_cast<uint32_t>(bytes),
                 .message = cursor_,
                 .message_bytes = request.bytes,
                 .offset = request.moved_bytes};
  out->data = request.data + request.moved_bytes;
  return true;
}

void SendQueue::chunk_sent(const Chunk& chunk) {
  Request& request = requests_.at(cursor_);
  request.moved_bytes += chunk.header.bytes;
  if (cursor_ >= granted_) eager_sent_bytes_ += chunk.header.bytes;
  if (request.moved_bytes == request.bytes) ++cursor_;
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
  return true;
}

uint64_t SendQueue::outstanding_bytes() const {
  uint64_t bytes = 0;
  for (uint64_t m = requests_.finished(); m < requests_.posted(); ++m) {
    bytes += requests_.at(m).bytes;
  }
  return bytes;
}

bool SendQueue::reads(const uint8_t* base, uint64_t bytes) const {
  for (uint64_t m = cursor_; m < requests_.posted(); ++m) {
    const Request& request = requests_.at(m);
    const uint8_t* from = request.data + request.moved_bytes;
    if (from < base + bytes && base < request.data + request.bytes) return true;
  }
  return false;
}

}  // namespace lyre::nccl_adapter
