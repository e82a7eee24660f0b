#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/protocol/frame.h"

/// What passes between a comm's queues and its streams.
namespace lyre::nccl_adapter {

struct Memory;

/// A frame to send: `header`, then header.bytes of `data`.
struct Chunk {
  FrameHeader header;
  const uint8_t* data = nullptr;
  lyre_region* region = nullptr;   ///< in which data lies; nullptr: it has to be copied
  const Memory* memory = nullptr;  ///< the same for queue pairs
  bool is_again = false;           ///< a stream that carried it broke
};

/// What is remembered of a frame that was handed to a stream.
struct SentChunk {
  uint64_t message;
  uint64_t offset;
  uint32_t bytes;
};

/// How far the frames of one stream were read.
struct FrameProgress {
  /// Takes payload of a frame that is not data from the front of `in`. True once it is complete.
  bool take_small_payload(std::span<const uint8_t>* in);

  FrameReader frames;
  bool is_begun = false;               ///< the frame's header was judged
  bool is_skipped = false;             ///< its payload goes nowhere
  std::vector<uint8_t> small_payload;  ///< of a frame that is not data, as far as it was read
};

}  // namespace lyre::nccl_adapter
