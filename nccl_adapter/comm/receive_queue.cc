#include "nccl_adapter/comm/receive_queue.h"

#include <algorithm>

#include "nccl_adapter/comm/ordered_copy.h"
#include "nccl_adapter/transport/transport.h"

namespace lyre::nccl_adapter {
namespace {

// Streams leave few holes in a message; thousands are an attempt to use up memory.
constexpr size_t kPiecesMax = 4096;

bool has_read_right(const FrameProgress& reader) {
  return reader.source == nullptr || reader.source->has_read_right();
}

}  // namespace

Request* ReceiveQueue::post(void* data, uint64_t bytes) {
  Request* request = requests_.post(data, bytes);
  if (request == nullptr) return nullptr;
  untold_bytes_ += bytes;
  const uint64_t number = requests_.posted() - 1;
  Incoming& message = incoming(number);
  if (!message.is_known) return request;
  if (message.message_bytes > bytes) {
    refused_ = Refused{number, message.message_bytes, bytes};
    return request;
  }
  copy_in_order(static_cast<uint8_t*>(data), message.early.data(), message.early.size());
  copied_bytes_ += message.early.size();
  early_bytes_ -= message.early.size();
  message.early = {};
  finish_messages();
  return request;
}

ReceiveQueue::Verdict ReceiveQueue::take(FrameProgress* reader, std::span<const uint8_t>* in) {
  FrameReader& frames = reader->frames;
  // A frame without payload ends with its header, so one more round may be due on empty input.
  while (!in->empty() || frames.state() == FrameReader::State::kPayload) {
    if (frames.state() == FrameReader::State::kBroken) return Verdict::kBroken;
    if (frames.state() == FrameReader::State::kHeader) {
      frames.take_header(in);
      continue;
    }
    if (!reader->is_begun) {
      const Verdict verdict = begin_frame(reader);
      if (verdict != Verdict::kMore) return verdict;
    }
    if (frames.payload_left() > 0) {
      if (in->empty()) return Verdict::kMore;
      if (frames.header().type == FrameType::kData) {
        place(reader, in);
      } else {
        reader->take_small_payload(in);
      }
    }
    if (frames.payload_left() > 0) continue;
    const Verdict verdict = finish_frame(reader);
    if (verdict != Verdict::kMore) return verdict;
  }
  return frames.state() == FrameReader::State::kBroken ? Verdict::kBroken : Verdict::kMore;
}

ReceiveQueue::Verdict ReceiveQueue::begin_frame(FrameProgress* reader) {
  reader->is_begun = true;
  switch (reader->frames.header().type) {
    case FrameType::kData:
      return begin_data(reader);
    case FrameType::kWritten:
      reader->has_written_payload = true;
      return reader->is_of_queue_pair ? begin_data(reader) : Verdict::kBroken;
    case FrameType::kPing:
      return Verdict::kMore;
    case FrameType::kBye:
      return Verdict::kMore;
    case FrameType::kOffer:
    case FrameType::kAccept:
    case FrameType::kDecline:
    case FrameType::kCredit:
      reader->small_payload.clear();
      return Verdict::kMore;
    case FrameType::kGrant:
    case FrameType::kPlace:
    case FrameType::kFail:
      break;
  }
  return Verdict::kBroken;
}

// Everything the payload's placing relies on is checked here, once a frame.
ReceiveQueue::Verdict ReceiveQueue::begin_data(FrameProgress* reader) {
  if (!has_read_right(*reader)) return Verdict::kRevoked;
  const FrameHeader& header = reader->frames.header();
  reader->is_skipped = header.message < requests_.finished();
  if (reader->is_skipped) return Verdict::kMore;
  // A sender reuses a request when we said that its message is placed, not before.
  if (header.message - requests_.finished() >= kRequestsPerComm) return Verdict::kBroken;
  Incoming& message = incoming(header.message);
  if (message.is_known && message.message_bytes != header.message_bytes) return Verdict::kBroken;
  if (is_posted(header.message) && header.message_bytes > requests_.at(header.message).bytes) {
    refused_ = Refused{header.message, header.message_bytes, requests_.at(header.message).bytes};
    return Verdict::kTooLarge;
  }
  const uint64_t end = header.offset + header.bytes;
  if (message.placed.overlaps(header.offset, end)) {
    // Sent again because the grant was lost; always the whole frame.
    reader->is_skipped = message.placed.covers(header.offset, end);
    return reader->is_skipped ? Verdict::kMore : Verdict::kBroken;
  }
  if (!is_posted(header.message)) {
    // Only what was posted can have been written.
    const bool is_early = header.type == FrameType::kData && make_room(&message, end);
    if (!is_early) return Verdict::kBroken;
  }
  message.is_known = true;
  message.message_bytes = header.message_bytes;
  return Verdict::kMore;
}

bool ReceiveQueue::make_room(Incoming* message, uint64_t bytes) {
  if (bytes <= message->early.size()) return true;
  const uint64_t more_bytes = bytes - message->early.size();
  if (more_bytes > kEagerBytes - early_bytes_) return false;
  early_bytes_ += more_bytes;
  message->early.resize(bytes);
  return true;
}

void ReceiveQueue::place(FrameProgress* reader, std::span<const uint8_t>* in) {
  FrameReader& frames = reader->frames;
  const uint64_t number = frames.header().message;
  const size_t bytes = std::min<size_t>(in->size(), frames.payload_left());
  // Another stream may have completed the message since this frame began: then its memory is not
  // ours any more.
  if (number < requests_.finished()) reader->is_skipped = true;
  if (!reader->is_skipped) {
    uint8_t* base = is_posted(number) ? requests_.at(number).data : incoming(number).early.data();
    copy_in_order(base + frames.payload_offset(), in->data(), bytes);
    copied_bytes_ += bytes;
  }
  frames.payload_taken(static_cast<uint32_t>(bytes));
  *in = in->subspan(bytes);
}

ReceiveQueue::Verdict ReceiveQueue::finish_frame(FrameProgress* reader) {
  const FrameHeader& header = reader->frames.header();
  const bool brings_bytes = header.type == FrameType::kData || header.type == FrameType::kWritten;
  const bool counts = brings_bytes && !reader->is_skipped && header.message >= requests_.finished();
  reader->is_begun = false;
  reader->is_skipped = false;
  reader->frames.finish();
  if (names_queue_pair(header.type) || header.type == FrameType::kCredit) return Verdict::kOther;
  if (header.type == FrameType::kBye) return take_bye(*reader);
  if (header.type == FrameType::kPing) is_asked_ = true;
  if (!counts) return Verdict::kMore;
  if (!has_read_right(*reader)) return Verdict::kRevoked;
  Ranges& placed = incoming(header.message).placed;
  const uint64_t end = header.offset + header.bytes;
  if (placed.overlaps(header.offset, end)) {
    // Two streams brought it at the same time.
    return placed.covers(header.offset, end) ? Verdict::kMore : Verdict::kBroken;
  }
  if (header.bytes > 0) placed.add(header.offset, end);
  if (placed.pieces() > kPiecesMax) return Verdict::kBroken;
  if (is_posted(header.message)) requests_.at(header.message).moved_bytes = placed.bytes();
  finish_messages();
  return Verdict::kMore;
}

// Each stream brings the same one. A message that is not placed occupies a request of the sender.
ReceiveQueue::Verdict ReceiveQueue::take_bye(const FrameProgress& reader) {
  if (!has_read_right(reader)) return Verdict::kRevoked;
  const uint64_t messages = std::max(reader.frames.header().message, ends_after_.value_or(0));
  const bool is_possible = messages <= placed() + kRequestsPerComm;
  if (!is_possible) return Verdict::kBroken;
  ends_after_ = messages;
  return Verdict::kBye;
}

bool ReceiveQueue::has_all_before(uint64_t message) {
  for (uint64_t m = placed(); m < message; ++m) {
    if (!is_complete(m)) return false;
  }
  return true;
}

bool ReceiveQueue::is_complete(uint64_t number) {
  const Incoming& message = incoming(number);
  return message.is_known && message.placed.bytes() == message.message_bytes;
}

void ReceiveQueue::finish_messages() {
  while (requests_.active() > 0 && is_complete(requests_.finished())) {
    const uint64_t number = requests_.finished();
    Incoming& message = incoming(number);
    requests_.at(number).bytes = message.message_bytes;
    requests_.at(number).moved_bytes = message.message_bytes;
    placed_untold_bytes_ += message.message_bytes;
    message.is_known = false;
    message.placed.clear();
    requests_.finish_oldest();
  }
}

bool ReceiveQueue::has_news() const {
  return requests_.finished() != placed_told_ || untold_bytes_ > kGrantPromptBytes;
}

bool ReceiveQueue::may_news_wait() const {
  const uint64_t untold = requests_.finished() - placed_told_;
  const bool has_next_begun = incoming_[requests_.finished() % kRequestsPerComm].is_known;
  return untold > 0 && untold < kKeptSends / 2 && placed_untold_bytes_ < kZeroCopyBytesMin &&
         !has_next_begun && !is_asked_;
}

FrameHeader ReceiveQueue::make_grant() {
  placed_told_ = requests_.finished();
  untold_bytes_ = 0;
  placed_untold_bytes_ = 0;
  is_asked_ = false;
  return {.type = FrameType::kGrant, .message = placed_told_, .offset = requests_.posted()};
}

}  // namespace lyre::nccl_adapter
