#include "nccl_adapter/core/receive_queue.h"

#include <algorithm>
#include <cstring>

namespace lyre::nccl_adapter {

Request* ReceiveQueue::post(void* data, uint64_t bytes) {
  Request* request = requests_.post(data, bytes);
  if (request != nullptr) untold_bytes_ += bytes;
  return request;
}

ReceiveQueue::Verdict ReceiveQueue::take(std::span<const uint8_t>* in) {
  // A frame without payload ends with its header, so one more round may be due on empty input.
  while (!in->empty() || reader_.state() == FrameReader::State::kPayload) {
    if (reader_.state() == FrameReader::State::kBroken) return Verdict::kBroken;
    if (reader_.state() == FrameReader::State::kHeader) {
      reader_.take_header(in);
      continue;
    }
    if (!frame_begun_) {
      const Verdict verdict = begin_frame();
      if (verdict != Verdict::kMore) return verdict;
    }
    if (reader_.payload_left() > 0) {
      if (in->empty()) return Verdict::kMore;
      place(in);
    }
    if (reader_.payload_left() == 0) finish_frame();
  }
  return reader_.state() == FrameReader::State::kBroken ? Verdict::kBroken : Verdict::kMore;
}

// Everything the payload's placing relies on is checked here, once a frame.
ReceiveQueue::Verdict ReceiveQueue::begin_frame() {
  const FrameHeader& header = reader_.header();
  if (header.type == FrameType::kBye) return Verdict::kBye;
  if (header.type != FrameType::kPing && header.type != FrameType::kData) return Verdict::kBroken;
  if (header.type == FrameType::kData) {
    if (header.message != requests_.finished()) return Verdict::kBroken;
    if (requests_.active() == 0) return Verdict::kBlocked;
    Request& request = requests_.at(header.message);
    if (!message_begun_ && header.message_bytes > request.bytes) return Verdict::kTooLarge;
    if (message_begun_ && header.message_bytes != request.bytes) return Verdict::kBroken;
    // One stream delivers a message in order, so what comes next is known.
    if (header.offset != request.moved_bytes) return Verdict::kBroken;
    request.bytes = header.message_bytes;
    message_begun_ = true;
  }
  frame_begun_ = true;
  return Verdict::kMore;
}

void ReceiveQueue::place(std::span<const uint8_t>* in) {
  Request& request = requests_.at(reader_.header().message);
  const size_t bytes = std::min<size_t>(in->size(), reader_.payload_left());
  std::memcpy(request.data + reader_.payload_offset(), in->data(), bytes);
  request.moved_bytes += bytes;
  reader_.payload_taken(static_cast<uint32_t>(bytes));
  *in = in->subspan(bytes);
}

void ReceiveQueue::finish_frame() {
  frame_begun_ = false;
  reader_.finish();
  if (reader_.header().type != FrameType::kData) return;
  const Request& request = requests_.at(requests_.finished());
  if (request.moved_bytes < request.bytes) return;
  message_begun_ = false;
  requests_.finish_oldest();
}

bool ReceiveQueue::has_news() const {
  return requests_.finished() != placed_told_ || untold_bytes_ > kGrantPromptBytes;
}

FrameHeader ReceiveQueue::make_grant() {
  placed_told_ = requests_.finished();
  posted_told_ = requests_.posted();
  untold_bytes_ = 0;
  return {.type = FrameType::kGrant, .message = placed_told_, .offset = posted_told_};
}

uint64_t ReceiveQueue::outstanding_bytes() const {
  uint64_t bytes = 0;
  for (uint64_t m = requests_.finished(); m < requests_.posted(); ++m) {
    bytes += requests_.at(m).bytes;
  }
  return bytes;
}

bool ReceiveQueue::writes(const uint8_t* base, uint64_t bytes) const {
  for (uint64_t m = requests_.finished(); m < requests_.posted(); ++m) {
    const Request& request = requests_.at(m);
    if (request.data < base + bytes && base < request.data + request.bytes) return true;
  }
  return false;
}

}  // namespace lyre::nccl_adapter
