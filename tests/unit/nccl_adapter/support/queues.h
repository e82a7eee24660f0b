#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "nccl_adapter/comm/receive_queue.h"
#include "nccl_adapter/comm/send_queue.h"

/// Frames for the queues of a comm, and what a stream would do with them.
namespace lyre::nccl_adapter {

using Verdict = ReceiveQueue::Verdict;

inline std::vector<uint8_t> frame(const FrameHeader& header, size_t payload_bytes = 0) {
  std::vector<uint8_t> bytes(kFrameHeaderBytes + payload_bytes, 0x77);
  encode(header, std::span<uint8_t, kFrameHeaderBytes>(bytes.data(), kFrameHeaderBytes));
  return bytes;
}

inline Verdict take(ReceiveQueue& queue, const std::vector<uint8_t>& bytes,
                    bool is_of_queue_pair = false) {
  FrameProgress reader;
  reader.is_of_queue_pair = is_of_queue_pair;
  std::span<const uint8_t> in(bytes);
  return queue.take(&reader, &in);
}

inline std::vector<uint8_t> counted(size_t bytes, uint8_t first) {
  std::vector<uint8_t> data(bytes);
  std::iota(data.begin(), data.end(), first);
  return data;
}

// Moves everything that may leave `from` to the end of `wire`. Returns the payload bytes.
inline uint64_t drain(SendQueue& from, std::vector<uint8_t>* wire) {
  Chunk chunk;
  uint64_t payload_bytes = 0;
  while (from.next_chunk(1, kChunkBytesMax, &chunk)) {
    const std::vector<uint8_t> header = frame(chunk.header);
    wire->insert(wire->end(), header.begin(), header.end());
    if (chunk.header.bytes > 0) {
      wire->insert(wire->end(), chunk.data, chunk.data + chunk.header.bytes);
    }
    payload_bytes += chunk.header.bytes;
    from.chunk_sent(chunk);
  }
  return payload_bytes;
}

}  // namespace lyre::nccl_adapter
