#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// Frames, which follow the handshake on a stream in both directions. This file defines them;
/// docs/design/nccl_protocol.md explains them.
namespace lyre::nccl_adapter {

enum class FrameType : uint8_t {
  kData = 1,  ///< sender: `bytes` of payload, at `offset` of `message`, which has `message_bytes`
  kGrant,     ///< receiver: messages before `message` are placed, those before `offset` are posted
  kPing,      ///< either: asks for a grant that waits; a dead host does not acknowledge it
  kBye,   ///< either: nothing follows, and that is intended. From version 4 on a sender says how
          ///< many messages there were: `message`; 0: what is not placed is not to be placed
  kFail,  ///< receiver: cannot go on; `bytes` of text say why, for `message`
  // From version 3 on: queue pair lane `message`, of incarnation `offset`.
  kOffer,    ///< sender: has a queue pair; the payload describes it (queue_pair_terms.h)
  kAccept,   ///< receiver: has its counterpart; as above
  kDecline,  ///< either: there is none, or not any more; `bytes` of text say why
  kCredit,   ///< either, over a queue pair: `message` receives were posted again since it was made
  // The same, in mode 2. `bytes` is no payload here: nothing follows the header.
  kPlace,    ///< receiver: `message` may be written to `offset`, an address, up to `message_bytes`,
             ///< with the key `bytes`
  kWritten,  ///< sender: `bytes` at `offset` of `message`, which has `message_bytes`, were written
};

/// The first version whose receiver places what came before a bye.
inline constexpr uint16_t kCountedByeVersion = 4;

inline constexpr size_t kFrameHeaderBytes = 32;
inline constexpr uint32_t kFrameBytesMax = 4u << 20;
/// Payload of any frame but data.
inline constexpr uint32_t kSmallPayloadBytesMax = 512;

struct FrameHeader {
  FrameType type{};
  uint32_t bytes = 0;  ///< of payload behind this header, but for kPlace and kWritten
  uint64_t message = 0;
  uint64_t message_bytes = 0;
  uint64_t offset = 0;
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

/// Offer, accept and decline.
inline bool names_queue_pair(FrameType type) {
  return type == FrameType::kOffer || type == FrameType::kAccept || type == FrameType::kDecline;
}

/// Its payload is no message's, and at most kSmallPayloadBytesMax.
inline bool has_small_payload(FrameType type) {
  return type == FrameType::kFail || names_queue_pair(type);
}

/// What follows the header.
inline uint32_t payload_bytes(const FrameHeader& header) {
  const bool has_none = header.type == FrameType::kPlace || header.type == FrameType::kWritten;
  return has_none ? 0 : header.bytes;
}

void encode(const FrameHeader& header, std::span<uint8_t, kFrameHeaderBytes> out);

/// Fails: false when the type is unknown or a length is invalid.
bool decode(std::span<const uint8_t, kFrameHeaderBytes> in, FrameHeader* out);

/// Cuts a byte stream into frame headers and runs of payload. Holds no payload.
class FrameReader {
 public:
  enum class State { kHeader, kPayload, kBroken };

  State state() const { return state_; }
  /// Takes bytes of the header from the front of `in`; true once header() is complete, after which
  /// the payload comes, or the frame ends with it. REQUIRES: state() is kHeader.
  bool take_header(std::span<const uint8_t>* in);
  const FrameHeader& header() const { return header_; }
  /// Bytes of payload of this frame not taken yet.
  uint32_t payload_left() const { return payload_left_; }
  /// Where in the message the next payload byte belongs.
  uint64_t payload_offset() const { return header_.offset + (header_.bytes - payload_left_); }
  /// REQUIRES: bytes <= payload_left().
  void payload_taken(uint32_t bytes);
  /// Ends the frame. REQUIRES: payload_left() is 0.
  void finish();

 private:
  State state_ = State::kHeader;
  FrameHeader header_;
  uint32_t payload_left_ = 0;
  size_t filled_ = 0;
  std::array<uint8_t, kFrameHeaderBytes> raw_{};
};

}  // namespace lyre::nccl_adapter
