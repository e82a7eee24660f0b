#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lyre::nccl_emulator {

/// NCCL's wire protocols over a network. Simple sends bare data in large slices; LL sends each
/// eight bytes with two flags, in small slots, and carries the small messages.
enum class Protocol { kLl, kSimple };

inline constexpr int kSlots = 8;  // NCCL_STEPS
inline constexpr size_t kSimpleSlotBytes = size_t{512} << 10;
inline constexpr size_t kPointToPointSlotBytes = size_t{128} << 10;  // NCCL_P2P_NET_CHUNKSIZE
inline constexpr size_t kLlSlotBytes = size_t{64} << 10;
inline constexpr size_t kLl128RegionBytes = 4'915'200;
inline constexpr size_t kLlLineBytes = 16;  // 4 data, 4 flag, 4 data, 4 flag
inline constexpr size_t kLlLineElements = 2;

/// What the ranks of a ring do together.
enum class Collective : uint8_t {
  kAllReduce,  ///< ncclAllReduce()
  kSendRecv,   ///< ncclSend() to the right and ncclRecv() from the left in one group
};
/// NCCL's name.
const char* name_of(Collective collective);

/// What the device does with one slice. The names are NCCL's.
enum class RingOp : uint8_t { kSend, kRecvReduceSend, kRecvReduceCopySend, kRecvCopySend, kRecv };

constexpr bool receives(RingOp op) { return op != RingOp::kSend; }
constexpr bool sends(RingOp op) { return op != RingOp::kRecv; }

/// The work of one message. A slice with `count` 0 still is a message.
struct Slice {
  RingOp op;
  uint64_t offset;  // elements from the bucket's start
  uint32_t count;   // elements
};

struct RingShape {
  int rank = 0;
  int ranks = 2;
  int channels = 2;
  int slice_steps = 2;  // slots of a Simple slice: 2 as NCCL's ring, 1 as its trees
};

/// How a protocol uses a connection's slots.
struct SlotPlan {
  size_t slice_bytes;  // the most bytes of one message on the wire
  int depth;           // messages in flight
};
SlotPlan slot_plan(Protocol protocol, int slice_steps,
                   Collective collective = Collective::kAllReduce);

/// Returns the bytes on the wire of a slice with `count` elements.
size_t wire_bytes(Protocol protocol, uint32_t count);

/// Returns one rank's slices, a list for each channel. An all-reduce is a reduce-scatter, then an
/// all-gather, in chunks. Of a send and receive each slice is received in place of the one that was
/// sent. The k-th sending slice of a rank is as long as the k-th receiving slice of its right
/// neighbour.
std::vector<std::vector<Slice>> make_ring(const RingShape& shape, Protocol protocol,
                                          uint64_t elements,
                                          Collective collective = Collective::kAllReduce);

}  // namespace lyre::nccl_emulator
