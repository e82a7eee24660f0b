#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "nccl_adapter/comm/request_table.h"
#include "nccl_adapter/protocol/frame.h"
#include "nccl_adapter/transport/chunk.h"

namespace lyre::nccl_adapter {

/// Decides which bytes of which message may leave next, and which messages are done: the sending
/// half of a comm, without its streams. A message is done when the receiver has placed it; until
/// then what a broken stream carried of it is sent again.
/// Thread: one at a time.
class SendQueue {
 public:
  explicit SendQueue(Comm* comm) : requests_(comm) {}

  /// Fails: nullptr when all requests are in use.
  Request* post(const void* data, uint64_t bytes);
  /// The receiver places what came before a bye: small messages are kept from now on, so that NCCL
  /// need not wait until they are placed.
  void keep_small() { keeps_small_ = true; }
  /// Bytes that were copied since this was last asked, in order to be kept.
  uint64_t take_copied_bytes() { return std::exchange(copied_bytes_, 0); }
  /// The next frame; false when there is nothing to send, or the receiver has to grant first.
  /// A message of more than kStripeBytesMin is cut in even pieces, if possible one for each of
  /// `streams`, of kStripeBytesMin to kChunkBytesMax bytes, of at most `piece_bytes_max`, at
  /// multiples of kCutBytes.
  bool next_chunk(size_t streams, uint64_t piece_bytes_max, Chunk* out) const;
  /// `chunk`, which next_chunk() gave last, was handed over. `is_lasting`: it arrives also when the
  /// comm is closed now.
  void chunk_sent(const Chunk& chunk, bool is_lasting = true);
  /// A stream broke, and it is not known whether the receiver got this.
  void send_again(const SentChunk& sent);
  /// The receiver has placed all messages before `placed` and posted receives for those before
  /// `posted`. A grant that is older than the last is ignored.
  /// Fails: false when that claims something that never was sent.
  bool on_grant(uint64_t placed, uint64_t posted);

  /// Done is what is known to be placed: until then, all of a message may have to be sent again.
  RequestTable& requests() { return requests_; }
  const RequestTable& requests() const { return requests_; }
  /// Messages before this one are placed.
  uint64_t placed() const { return requests_.finished(); }
  /// Something could be sent that no stream took yet.
  bool waits_for_room() const;
  /// Something waits for the receiver to post a receive.
  bool waits_for_credit() const;

 private:
  uint64_t eager_bytes_left() const;
  Chunk make_chunk(uint64_t message, uint64_t offset, uint64_t bytes) const;
  void keep(uint64_t message);
  void let_go();

  RequestTable requests_;
  std::vector<SentChunk> again_;   ///< newest message first: what is taken is at the end
  uint64_t cursor_ = 0;            ///< first message not wholly handed over
  uint64_t let_go_ = 0;            ///< messages before this one are placed, or let go
  uint64_t granted_ = 0;           ///< messages before this one have a receive posted
  uint64_t eager_sent_bytes_ = 0;  ///< handed over, of messages not granted
  bool keeps_small_ = false;
  std::unique_ptr<uint8_t[]> kept_;  ///< kKeptSends of kZeroCopyBytesMin bytes, by message
  uint64_t copied_bytes_ = 0;
};

}  // namespace lyre::nccl_adapter
