#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl_adapter/core/frame.h"
#include "nccl_adapter/core/request_table.h"

namespace lyre::nccl_adapter {

/// Decides which bytes of which message may leave next, and which messages are done: the sending
/// half of a comm, without a stream. A message is done when the receiver has placed it.
/// Thread: one at a time.
class SendQueue {
 public:
  /// A frame to send: `header`, then header.bytes of `data`.
  struct Chunk {
    FrameHeader header;
    const uint8_t* data = nullptr;
  };

  explicit SendQueue(Comm* comm) : requests_(comm) {}

  /// Fails: nullptr when all requests are in use.
  Request* post(const void* data, uint64_t bytes);
  /// The next frame, of at most `payload_bytes_max`; false when there is nothing to send, or the
  /// receiver has to grant first.
  bool next_chunk(size_t payload_bytes_max, Chunk* out) const;
  /// `chunk`, which next_chunk() gave last, was handed over.
  void chunk_sent(const Chunk& chunk);
  /// The receiver has placed all messages before `placed` and posted receives for those before
  /// `posted`. Older news than the last is ignored.
  /// Fails: false when that claims something that never was sent.
  bool on_grant(uint64_t placed, uint64_t posted);

  void release(Request* request) { requests_.release(request); }
  size_t active() const { return requests_.active(); }
  /// Bytes posted and not known to be placed.
  uint64_t outstanding_bytes() const;
  /// Whether a byte in [base, base + bytes) is still to be read.
  bool reads(const uint8_t* base, uint64_t bytes) const;

 private:
  uint64_t eager_bytes_left() const;

  RequestTable requests_;
  uint64_t cursor_ = 0;            ///< first message not wholly handed over
  uint64_t granted_ = 0;           ///< messages before this one have a receive posted
  uint64_t eager_sent_bytes_ = 0;  ///< handed over, of messages not granted
};

}  // namespace lyre::nccl_adapter
