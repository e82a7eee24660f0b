#include "tools/nccl_emulator/ring.h"

#include <algorithm>

namespace lyre::nccl_emulator {
namespace {

constexpr uint64_t kAlignElements = 4;  // 16 bytes

uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
uint64_t align_up(uint64_t a, uint64_t b) { return divide_up(a, b) * b; }

struct ChunkPlan {
  uint64_t chunk_elements;
  uint32_t slices_per_chunk;
  uint64_t slice_elements_max;
};

ChunkPlan chunk_plan(Protocol protocol, int slice_steps) {
  if (protocol == Protocol::kLl) {
    const uint64_t elements = kLlSlotBytes / kLlLineBytes * kLlLineElements;
    return {elements, 1, elements};
  }
  // ALLREDUCE_CHUNKSTEPS: half of the slots are one chunk.
  const uint64_t slot = kSimpleSlotBytes / sizeof(float);
  const auto steps = static_cast<uint64_t>(slice_steps);
  const uint64_t chunk_steps = kSlots / 2;
  return {slot * chunk_steps, static_cast<uint32_t>(chunk_steps / steps), slot * steps};
}

class ChannelBuilder {
 public:
  ChannelBuilder(const RingShape& shape, const ChunkPlan& plan) : shape_(shape), plan_(plan) {}

  std::vector<Slice> build(uint64_t begin, uint64_t count) {
    const auto ranks = static_cast<uint64_t>(shape_.ranks);
    for (uint64_t done = 0; done < count; done += loop_chunk_ * ranks) {
      begin_ = begin + done;
      left_ = count - done;
      loop_chunk_ =
          std::min(plan_.chunk_elements, align_up(divide_up(left_, ranks), kAlignElements));
      add_loop();
    }
    return std::move(slices_);
  }

 private:
  void add_loop() {
    const int n = shape_.ranks;
    add_chunk(RingOp::kSend, n - 1);
    for (int step = 2; step < n; ++step) add_chunk(RingOp::kRecvReduceSend, n - step);
    add_chunk(RingOp::kRecvReduceCopySend, 0);
    for (int step = 1; step < n - 1; ++step) add_chunk(RingOp::kRecvCopySend, n - step);
    add_chunk(RingOp::kRecv, 1);
  }

  // `distance`: which rank's chunk, counted to the right of this rank.
  void add_chunk(RingOp op, int distance) {
    const auto chunk = static_cast<uint64_t>((shape_.rank + distance) % shape_.ranks);
    const uint64_t offset = std::min(chunk * loop_chunk_, left_);
    const uint64_t count = std::min(loop_chunk_, left_ - offset);
    const uint64_t even = align_up(divide_up(count, plan_.slices_per_chunk), kAlignElements);
    // A thirty-second of the largest slice is not worth splitting.
    const uint64_t slice = std::max(even, plan_.slice_elements_max / 32);
    for (uint32_t i = 0; i < plan_.slices_per_chunk; ++i) {
      const uint64_t at = std::min(i * slice, count);
      slices_.push_back(
          {op, begin_ + offset + at, static_cast<uint32_t>(std::min(slice, count - at))});
    }
  }

  const RingShape& shape_;
  const ChunkPlan& plan_;
  uint64_t begin_ = 0;
  uint64_t left_ = 0;
  uint64_t loop_chunk_ = 0;
  std::vector<Slice> slices_;
};

/// The most elements of a message of a send and receive of `elements`: NCCL takes smaller ones for
/// less, so that the copies and the network overlap (addP2pToPlan).
uint64_t exchange_elements_max(Protocol protocol, uint64_t elements) {
  if (protocol == Protocol::kLl) return kLlSlotBytes / kLlLineBytes * kLlLineElements;
  const uint64_t slot = kPointToPointSlotBytes / sizeof(float);
  if (elements < slot) return slot / 4;
  return elements < 8 * slot ? slot / 2 : slot;
}

// NCCL sends and receives by warps of their own. Here one list has both: as many slices are sent
// before the first is received as there are slots, so that neither waits for the other.
std::vector<Slice> exchange(uint64_t begin, uint64_t count, uint64_t slice_elements, size_t slots) {
  std::vector<Slice> sent;
  for (uint64_t at = 0; at < count; at += slice_elements) {
    const uint64_t elements = std::min(slice_elements, count - at);
    sent.push_back({RingOp::kSend, begin + at, static_cast<uint32_t>(elements)});
  }
  std::vector<Slice> slices;
  for (size_t i = 0; i < sent.size() + slots; ++i) {
    if (i < sent.size()) slices.push_back(sent[i]);
    if (i < slots || i - slots >= sent.size()) continue;
    slices.push_back(sent[i - slots]);
    slices.back().op = RingOp::kRecv;
  }
  return slices;
}

}  // namespace

const char* name_of(Collective collective) {
  return collective == Collective::kAllReduce ? "AllReduce" : "SendRecv";
}

SlotPlan slot_plan(Protocol protocol, int slice_steps, Collective collective) {
  if (protocol == Protocol::kLl) return {kLlSlotBytes, kSlots};
  // A rank that sends to one other and receives from one has all of NCCL_STEPS (net.cc, maxDepth).
  if (collective == Collective::kSendRecv) return {kPointToPointSlotBytes, kSlots};
  return {kSimpleSlotBytes * static_cast<size_t>(slice_steps), kSlots / slice_steps};
}

size_t wire_bytes(Protocol protocol, uint32_t count) {
  if (protocol == Protocol::kSimple) return count * sizeof(float);
  return divide_up(count, kLlLineElements) * kLlLineBytes;
}

std::vector<std::vector<Slice>> make_ring(const RingShape& shape, Protocol protocol,
                                          uint64_t elements, Collective collective) {
  const auto depth = static_cast<size_t>(slot_plan(protocol, shape.slice_steps, collective).depth);
  const ChunkPlan plan = chunk_plan(protocol, shape.slice_steps);
  const uint64_t exchanged = exchange_elements_max(protocol, elements);
  const auto channels = static_cast<uint64_t>(shape.channels);
  const uint64_t part = align_up(divide_up(elements, channels), kAlignElements);
  std::vector<std::vector<Slice>> ring;
  for (uint64_t channel = 0; channel < channels; ++channel) {
    const uint64_t begin = std::min(channel * part, elements);
    const uint64_t count = std::min(part, elements - begin);
    ring.push_back(collective == Collective::kAllReduce
                       ? ChannelBuilder(shape, plan).build(begin, count)
                       : exchange(begin, count, exchanged, depth));
  }
  return ring;
}

}  // namespace lyre::nccl_emulator
