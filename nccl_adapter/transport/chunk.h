#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/protocol/frame.h"

/// What passes between a comm's queues and its streams.
namespace lyre::nccl_adapter {

struct Memory;

/// One incarnation of a lane for queue pairs; incarnation 0: none.
struct QueuePairName {
  uint16_t lane = 0;
  uint32_t incarnation = 0;
  friend bool operator==(const QueuePairName&, const QueuePairName&) = default;
};

/// A frame to send: `header`, then header.bytes of `data`.
struct Chunk {
  FrameHeader header;
  const uint8_t* data = nullptr;
  lyre_region* region = nullptr;   ///< in which data lies; nullptr: it has to be copied
  const Memory* memory = nullptr;  ///< the same for queue pairs
  bool is_again = false;           ///< a lane that carried it broke
  QueuePairName written_over{};    ///< that lane, where it wrote the payload
};

/// What is remembered of a frame that was handed to a stream.
struct SentChunk {
  uint64_t message;
  uint64_t offset;
  uint32_t bytes;
  QueuePairName written_over{};  ///< a queue pair may have written it to the receiver's memory
};

class Transport;

/// How far the frames of one stream were read.
struct FrameProgress {
  /// Takes payload of a frame that is not data from the front of `in`. True once it is complete.
  bool take_small_payload(std::span<const uint8_t>* in);

  FrameReader frames;
  Transport* source = nullptr;         ///< *borrowed*: where the bytes come from
  bool is_begun = false;               ///< the frame's header was judged
  bool is_skipped = false;             ///< its payload goes nowhere
  bool is_of_queue_pair = false;       ///< the lane is for queue pairs
  bool has_written_payload = false;    ///< the peer said so of some that it wrote (kWritten)
  std::vector<uint8_t> small_payload;  ///< of a frame that is not data, as far as it was read
};

}  // namespace lyre::nccl_adapter
