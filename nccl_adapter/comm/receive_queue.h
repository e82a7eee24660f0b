#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "nccl_adapter/comm/ranges.h"
#include "nccl_adapter/comm/request_table.h"
#include "nccl_adapter/protocol/frame.h"
#include "nccl_adapter/transport/chunk.h"

namespace lyre::nccl_adapter {

/// Places arriving messages in posted buffers: the receiving half of a comm, without its streams.
/// Each stream has a reader of its own; frames come in any order over any of them, and some twice.
/// What comes before its receive is kept here: at most kEagerBytes, which is all that a sender may
/// send unasked, so that what was asked for never waits behind it.
/// Thread: one at a time.
class ReceiveQueue {
 public:
  enum class Verdict {
    kMore,      ///< everything was taken
    kTooLarge,  ///< a message is larger than the receive posted for it: see refused()
    kBroken,    ///< not a frame that may come here
    kBye,       ///< the sender ended on purpose: see ends_after(); call again with what is left
    kRevoked,   ///< what was read is not what was sent: see Transport::has_read_right()
    kOther,  ///< a frame about queue pairs or credit, whole, in `reader`; call again with what is
             ///< left
  };

  /// A message that does not fit its receive.
  struct Refused {
    uint64_t message;
    uint64_t message_bytes;
    uint64_t posted_bytes;
  };

  explicit ReceiveQueue(Comm* comm) : requests_(comm) {}

  /// Fails: nullptr when all requests are in use. Check refused() afterwards: the message may be
  /// here already.
  Request* post(void* data, uint64_t bytes);
  /// Takes bytes from the front of `in`.
  Verdict take(FrameProgress* reader, std::span<const uint8_t>* in);
  const std::optional<Refused>& refused() const { return refused_; }
  /// After a bye: how many messages the sender sent that are to be placed.
  std::optional<uint64_t> ends_after() const { return ends_after_; }
  /// The next message to be placed is wholly here, and its receive is not posted.
  bool has_unplaced() { return is_complete(placed()); }
  /// Every byte of messages before this one is here. REQUIRES: message - placed() is at most
  /// kRequestsPerComm.
  bool has_all_before(uint64_t message);

  /// Whether the sender should be told now what is placed and posted.
  bool has_news() const;
  /// The sender does not wait for it: a few small messages are placed, and it keeps more of them.
  /// It waits for the grant of larger ones; where a message has begun it may wait for room; and a
  /// ping asks.
  bool may_news_wait() const;
  /// The grant that says so. The caller sends it.
  FrameHeader make_grant();

  /// Bytes that were copied since this was last asked: to where they belong, or to wait for it.
  uint64_t take_copied_bytes() { return std::exchange(copied_bytes_, 0); }

  /// Done is what was wholly placed.
  RequestTable& requests() { return requests_; }
  const RequestTable& requests() const { return requests_; }
  /// Messages that were wholly placed.
  uint64_t placed() const { return requests_.finished(); }
  uint64_t posted() const { return requests_.posted(); }

 private:
  /// What is known of a message that is not wholly placed.
  struct Incoming {
    bool is_known = false;  ///< message_bytes is what a frame said
    uint64_t message_bytes = 0;
    Ranges placed;
    std::vector<uint8_t> early;  ///< its first bytes, as long as no receive is posted
  };

  Incoming& incoming(uint64_t message) { return incoming_[message % kRequestsPerComm]; }
  bool is_posted(uint64_t message) const { return message < requests_.posted(); }
  Verdict begin_frame(FrameProgress* reader);
  Verdict begin_data(FrameProgress* reader);
  bool make_room(Incoming* message, uint64_t bytes);
  void place(FrameProgress* reader, std::span<const uint8_t>* in);
  Verdict finish_frame(FrameProgress* reader);
  Verdict take_bye(const FrameProgress& reader);
  void finish_messages();
  bool is_complete(uint64_t message);

  RequestTable requests_;
  std::array<Incoming, kRequestsPerComm> incoming_;
  uint64_t early_bytes_ = 0;
  uint64_t copied_bytes_ = 0;
  std::optional<Refused> refused_;
  std::optional<uint64_t> ends_after_;
  uint64_t placed_told_ = 0;
  uint64_t placed_untold_bytes_ = 0;  ///< since the last grant
  uint64_t untold_bytes_ = 0;         ///< posted since then
  bool is_asked_ = false;             ///< a ping came since then
};

}  // namespace lyre::nccl_adapter
