#include "nccl_adapter/protocol/frame.h"

#include <algorithm>

#include "nccl_adapter/protocol/bytes.h"
#include "nccl_adapter/protocol/queue_pair_terms.h"

namespace lyre::nccl_adapter {
namespace {

bool names_lane(const FrameHeader& header) {
  return header.message <= UINT16_MAX && header.offset >= 1 && header.offset <= UINT32_MAX;
}

bool is_inside(const FrameHeader& header) {
  return header.bytes <= kFrameBytesMax && header.offset <= header.message_bytes &&
         header.bytes <= header.message_bytes - header.offset;
}

bool is_sane(const FrameHeader& header) {
  switch (header.type) {
    case FrameType::kData:
      return is_inside(header) && (header.bytes > 0 || header.message_bytes == 0);
    case FrameType::kGrant:
      return header.bytes == 0 && header.message <= header.offset;
    case FrameType::kPing:
    case FrameType::kBye:
      return header.bytes == 0;
    case FrameType::kFail:
      return header.bytes <= kSmallPayloadBytesMax;
    case FrameType::kOffer:
    case FrameType::kAccept:
      return header.bytes >= kQueuePairTermsBytes && header.bytes <= kSmallPayloadBytesMax &&
             names_lane(header);
    case FrameType::kDecline:
      return header.bytes <= kSmallPayloadBytesMax && names_lane(header);
    case FrameType::kCredit:
      return header.bytes == 0;
    case FrameType::kPlace:
      return header.message_bytes > 0 && header.message_bytes <= UINT64_MAX - header.offset;
    case FrameType::kWritten:
      return header.bytes > 0 && is_inside(header);
  }
  return false;
}

}  // namespace

void encode(const FrameHeader& header, std::span<uint8_t, kFrameHeaderBytes> out) {
  put_le<uint32_t>(out, 0, static_cast<uint32_t>(header.type));
  put_le<uint32_t>(out, 4, header.bytes);
  put_le<uint64_t>(out, 8, header.message);
  put_le<uint64_t>(out, 16, header.message_bytes);
  put_le<uint64_t>(out, 24, header.offset);
}

bool decode(std::span<const uint8_t, kFrameHeaderBytes> in, FrameHeader* out) {
  const uint32_t type = get_le<uint32_t>(in, 0);
  if (type > 0xff) return false;
  out->type = static_cast<FrameType>(type);
  out->bytes = get_le<uint32_t>(in, 4);
  out->message = get_le<uint64_t>(in, 8);
  out->message_bytes = get_le<uint64_t>(in, 16);
  out->offset = get_le<uint64_t>(in, 24);
  return is_sane(*out);
}

bool FrameReader::take_header(std::span<const uint8_t>* in) {
  const size_t bytes = std::min(in->size(), kFrameHeaderBytes - filled_);
  std::copy_n(in->begin(), bytes, raw_.begin() + static_cast<ptrdiff_t>(filled_));
  filled_ += bytes;
  *in = in->subspan(bytes);
  if (filled_ < kFrameHeaderBytes) return false;
  filled_ = 0;
  if (!decode(raw_, &header_)) {
    state_ = State::kBroken;
    return false;
  }
  payload_left_ = payload_bytes(header_);
  state_ = State::kPayload;
  return true;
}

void FrameReader::payload_taken(uint32_t bytes) { payload_left_ -= bytes; }

void FrameReader::finish() { state_ = State::kHeader; }

}  // namespace lyre::nccl_adapter
