#include "stack/session/send_queue.h"

#include <algorithm>

namespace lyre::session {

bool SendPieces::try_append(SendQueue& queue, BufRef piece) {
  const uint32_t index = pieces_.take();
  if (index == Slab<Piece>::kNone) return false;
  pieces_[index].ref = piece;
  ++by_region_[piece.region];
  if (queue.tail == UINT32_MAX) {
    queue.head = index;
  } else {
    pieces_[queue.tail].next = index;
  }
  queue.tail = index;
  ++queue.piece_count;
  return true;
}

uint32_t SendPieces::on_acked(SendQueue& queue, uint32_t bytes) {
  uint32_t finished = 0;
  queue.cursor_offset -= std::min(queue.cursor_offset, bytes);
  while (bytes > 0) {
    LYRE_CHECK(queue.head != UINT32_MAX);  // TCP counts exactly the bytes that were appended
    const uint32_t head = queue.head;
    const uint32_t left = pieces_[head].ref.length - queue.head_acked_bytes;
    if (bytes < left) {
      queue.head_acked_bytes += bytes;
      break;
    }
    bytes -= left;
    queue.head = pieces_[head].next;
    queue.head_acked_bytes = 0;
    if (queue.head == UINT32_MAX) queue.tail = UINT32_MAX;
    if (queue.cursor == head) queue.cursor = UINT32_MAX;
    give_back(head);
    ++finished;
  }
  queue.piece_count -= finished;
  queue.finished_count += finished;
  return finished;
}

void SendPieces::seek(SendQueue& queue, uint32_t offset) const {
  if (queue.cursor == UINT32_MAX || offset < queue.cursor_offset) {
    queue.cursor = queue.head;
    queue.cursor_offset = 0;
  }
  while (true) {
    // TCP asks for bytes of the queue only, which pieces cover to its end.
    LYRE_CHECK(queue.cursor != UINT32_MAX);
    const Piece& piece = pieces_[queue.cursor];
    const uint32_t bytes = piece.ref.length - skipped(queue, queue.cursor);
    if (offset - queue.cursor_offset < bytes) return;
    queue.cursor_offset += bytes;
    queue.cursor = piece.next;
  }
}

uint32_t SendPieces::gather(SendQueue& queue, uint32_t offset, uint32_t bytes,
                            std::span<BufRef> out) {
  uint32_t gathered = bytes;
  const uint32_t count = gather_some(queue, offset, gathered, out);
  return gathered == bytes ? count : 0;
}

uint32_t SendPieces::gather_some(SendQueue& queue, uint32_t offset, uint32_t& bytes,
                                 std::span<BufRef> out) {
  seek(queue, offset);
  uint32_t piece = queue.cursor;
  uint32_t skip = offset - queue.cursor_offset + skipped(queue, piece);
  uint32_t count = 0;
  uint32_t left = bytes;
  while (left > 0 && count < out.size()) {
    // As in seek(): the bytes are in the queue.
    LYRE_CHECK(piece != UINT32_MAX);
    const BufRef& ref = pieces_[piece].ref;
    const uint32_t taken = std::min(left, ref.length - skip);
    out[count++] = BufRef{.region = ref.region, .length = taken, .offset = ref.offset + skip};
    left -= taken;
    skip = 0;
    piece = pieces_[piece].next;
  }
  bytes -= left;
  return count;
}

bool SendPieces::names(const SendQueue& queue, uint32_t region) const {
  for (uint32_t at = queue.head; at != UINT32_MAX; at = pieces_[at].next) {
    if (pieces_[at].ref.region == region) return true;
  }
  return false;
}

uint32_t SendPieces::clear(SendQueue& queue) {
  uint32_t count = 0;
  for (uint32_t piece = queue.head; piece != UINT32_MAX; ++count) {
    const uint32_t next = pieces_[piece].next;
    give_back(piece);
    piece = next;
  }
  queue.finished_count += count;
  queue.head = queue.tail = queue.cursor = UINT32_MAX;
  queue.piece_count = queue.head_acked_bytes = queue.cursor_offset = 0;
  return count;
}

}  // namespace lyre::session
