#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stack/base/buf_ref.h"
#include "stack/base/slab.h"
#include "stack/channel/abi.h"

namespace lyre::session {

/// The bytes that the application sent on one connection and the peer has not acknowledged: a queue
/// of pieces of client memory, one for each send descriptor. It starts at the oldest unacknowledged
/// byte, which is the origin of tcp::SegmentOut::queue_offset.
/// It contains indices only, so the table of queues can be snapshot. SendPieces has the operations.
struct SendQueue {
  uint32_t head = UINT32_MAX;
  uint32_t tail = UINT32_MAX;
  uint32_t piece_count = 0;
  uint32_t head_acked_bytes = 0;  ///< of the head piece
  uint64_t finished_count = 0;    ///< acknowledged, or dropped, since the connection was opened

  // The end of the last gather(): the next one usually starts there.
  uint32_t cursor = UINT32_MAX;
  uint32_t cursor_offset = 0;  ///< queue offset of the cursor piece's first unacknowledged byte
};

/// The pieces of all send queues of a worker. Thread: the worker.
class SendPieces {
 public:
  explicit SendPieces(uint32_t pieces_max)
      : pieces_(pieces_max), by_region_(size_t{1} << channel::kRegionIndexBits) {}

  /// Appends a piece. False when no piece record is free: the caller leaves the descriptor in its
  /// ring.
  /// REQUIRES: a region that a kSend can name, or a context's arena.
  bool try_append(SendQueue& queue, BufRef piece);
  /// Removes `bytes` from the front. Returns how many pieces are thereby finished. REQUIRES: the
  /// queue holds that many bytes.
  uint32_t on_acked(SendQueue& queue, uint32_t bytes);
  /// Writes the pieces of the bytes [offset, offset + bytes) of the queue to `out`; returns the
  /// number of entries, or 0 when `out` is too small. REQUIRES: the queue holds that many bytes.
  uint32_t gather(SendQueue& queue, uint32_t offset, uint32_t bytes, std::span<BufRef> out);
  /// The same as far as `out` goes: `bytes` becomes what the entries hold.
  uint32_t gather_some(SendQueue& queue, uint32_t offset, uint32_t& bytes, std::span<BufRef> out);
  /// Removes all pieces, which are thereby finished. Returns their number.
  uint32_t clear(SendQueue& queue);
  /// Calls visit(BufRef) for all pieces, the oldest first.
  template <typename Visit>
  void for_each(const SendQueue& queue, Visit visit) const {
    for (uint32_t i = queue.head; i != UINT32_MAX; i = pieces_[i].next) visit(pieces_[i].ref);
  }
  uint32_t room() const { return pieces_.room(); }
  uint32_t used() const { return pieces_.used(); }

  /// Pieces of `region` in all queues, and whether this queue has one.
  uint32_t pieces_of(uint32_t region) const { return by_region_[region]; }
  bool names(const SendQueue& queue, uint32_t region) const;

  void copy_from(const SendPieces& other) {
    pieces_.copy_from(other.pieces_);
    by_region_ = other.by_region_;
  }

 private:
  struct Piece {
    BufRef ref;
    uint32_t next = UINT32_MAX;
  };
  void seek(SendQueue& queue, uint32_t offset) const;
  uint32_t skipped(const SendQueue& queue, uint32_t piece) const {
    return piece == queue.head ? queue.head_acked_bytes : 0;
  }

  void give_back(uint32_t piece) {
    --by_region_[pieces_[piece].ref.region];
    pieces_.give_back(piece);
  }

  Slab<Piece> pieces_;
  std::vector<uint32_t> by_region_;  ///< pieces that refer to the region
};

}  // namespace lyre::session
