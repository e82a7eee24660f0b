#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nccl_adapter/core/frame.h"
#include "nccl_adapter/core/request_table.h"

namespace lyre::nccl_adapter {

/// Places arriving messages in posted buffers: the receiving half of a comm, without a stream.
/// Thread: one at a time.
class ReceiveQueue {
 public:
  enum class Verdict {
    kMore,      ///< everything was taken
    kBlocked,   ///< the next message has no receive posted; its bytes stay with the caller
    kTooLarge,  ///< the message is larger than the receive posted for it: see header()
    kBroken,    ///< not a frame that may come here
    kBye,       ///< the sender ended on purpose
  };

  explicit ReceiveQueue(Comm* comm) : requests_(comm) {}

  /// Fails: nullptr when all requests are in use.
  Request* post(void* data, uint64_t bytes);
  /// Takes bytes from the front of `in`.
  Verdict take(std::span<const uint8_t>* in);
  const FrameHeader& header() const { return reader_.header(); }

  /// Whether the sender should be told now what is placed and posted.
  bool has_news() const;
  /// That news. The caller hands it over.
  FrameHeader make_grant();

  void release(Request* request) { requests_.release(request); }
  size_t active() const { return requests_.active(); }
  uint64_t outstanding_bytes() const;
  /// The size posted for the oldest receive. REQUIRES: active() > 0.
  uint64_t oldest_bytes() const { return requests_.at(requests_.finished()).bytes; }
  /// Whether a byte in [base, base + bytes) may still be written.
  bool writes(const uint8_t* base, uint64_t bytes) const;

 private:
  Verdict begin_frame();
  void place(std::span<const uint8_t>* in);
  void finish_frame();

  RequestTable requests_;
  FrameReader reader_;
  bool frame_begun_ = false;    ///< its header was checked against the posted receive
  bool message_begun_ = false;  ///< request.bytes is what comes, no longer what was posted
  uint64_t placed_told_ = 0;
  uint64_t posted_told_ = 0;
  uint64_t untold_bytes_ = 0;  ///< posted since the last grant
};

}  // namespace lyre::nccl_adapter
