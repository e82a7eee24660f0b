#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nccl_adapter/comm/request_table.h"
#include "nccl_adapter/protocol/frame.h"
#include "nccl_adapter/transport/environment.h"
#include "nccl_adapter/transport/lanes.h"
#include "nccl_adapter/transport/verbs/failed_places.h"
#include "nccl_adapter/transport/verbs/queue_pair.h"

namespace lyre::nccl_adapter {

/// The lanes of a comm that are for queue pairs, and how these are agreed upon: the sender offers
/// one, the receiver makes its counterpart and accepts, or declines. What they say goes over a
/// stream, as a queue pair is made again as often as it breaks.
/// Thread: under the instance's lock. Owner: the comm.
class QueuePairs {
 public:
  /// What a comm lends its queue pairs.
  struct Ground {
    Environment* environment;
    SessionOwner* waiter;             ///< is notified as that of a lane is
    Lanes* streams;                   ///< what is said about queue pairs goes over them
    std::function<void(Lane&)> drop;  ///< how the comm drops a lane
  };

  /// `id` is the comm's.
  QueuePairs(Ground ground, const Nonce& id) : ground_(std::move(ground)), id_(id) {}

  /// The lanes. There may be more of them later, never fewer.
  const std::vector<Lane*>& lanes() const { return lanes_; }
  /// How many carry data.
  size_t carrying() const;
  /// The lane, one of these, carries data.
  static bool carries(const Lane& lane);
  /// One that has room for the chunk, the emptiest. nullptr: none has.
  Lane* choose(const Chunk& chunk) const;
  /// `lane`, one of these, would write the chunk's payload to where its receive is.
  bool writes(const Lane& lane, const Chunk& chunk) const;
  bool reads(const Memory* memory) const;
  /// Of the lane, one of these: "rxe0 10.9.0.1 > 10.9.0.2, mode 2", or "mode 2 unused" as long as
  /// no payload was written.
  std::string path_text(const Lane& lane) const;
  /// Sends what waits for room.
  void flush();
  /// Gives up those that failed, or whose device does nothing.
  void look(int64_t now_ns);
  /// Drops all without a word; there are no more of them.
  void close();
  /// Why there is none, as far as is known.
  std::string trouble() const;

  /// The queue pair of the lane failed: tells the other side, and drops the lane.
  void give_up(Lane& lane);
  /// The same for those that read `memory`.
  void give_up_readers(const Memory* memory);
  /// A frame about queue pairs, or credit, came over `lane`, whole. Fails: false when it may not
  /// come there.
  bool on_frame(Lane& lane, bool is_sender);
  /// The sender's: offers what is not there and due, queue pairs of the ports that belong to
  /// `device`, towards `remote`.
  void offer(const Address& remote, size_t device);
  /// The sender's: says over `lane`, of any kind, that a queue pair is lost. What the lane carries
  /// afterwards may be sent again: the receiver has destroyed its end then.
  Io say_lost(Lane& lane, const QueuePairName& lost);
  /// The receiver's: writes frames to `out` that expose receives to the sender on that lane, those
  /// that were posted since the last call. Returns their bytes. REQUIRES: room for all receives.
  size_t expose(const Lane& lane, const RequestTable& receives, std::span<uint8_t> out);
  /// The receiver's: declines again what it accepted and lost, every kDeclineAgainNs. The stream
  /// that took the first decline may have been lost with it, and a sender without credit does not
  /// notice otherwise.
  void decline_again(int64_t now_ns);

 private:
  /// A lane, and what is offered for it.
  struct Place {
    explicit Place(SessionOwner* waiter, uint16_t number) : lane(waiter, number) {}
    Lane lane;
    std::unique_ptr<QueuePair> made;  ///< offered, and not accepted yet
    uint32_t incarnation = 0;         ///< of the last offer
    uint32_t failures = 0;            ///< in a row
    int64_t offer_ns = 0;             ///< not before
    int64_t attached_ns = 0;
    bool has_carried = false;  ///< since then, as of the last look
    Address own{};             ///< GID of the last attempt; all zeros: there was no port for it
    Address remote{};          ///< the peer's; all zeros at the sender, which does not choose by it
    FailedPlaces failed;
  };

  /// Whether a loss shows that the path, or the device, does not work.
  enum class Loss { kOfPath, kOther };

  static QueuePair* queue_pair(const Lane& lane);
  Place* place(uint64_t number) const;
  void give_up(Lane& lane, const std::string& why, Loss loss);
  void note_lost(const Lane& lane, const std::string& why, Loss loss);
  bool on_accept(const FrameHeader& header, std::span<const uint8_t> payload, Lane& over);
  void on_decline(const FrameHeader& header, std::span<const uint8_t> payload);
  bool on_offer(const FrameHeader& header, std::span<const uint8_t> payload, Lane& over);
  void grow(size_t count);
  void offer_one(Place& place, const VerbsChoice& choice, Lane& over);
  void note_failure(Place& place);
  void note_path_failure(Place& place);
  void attach(Place& place, std::unique_ptr<QueuePair> queue_pair);
  void note_none(Place& place, const std::string& why);
  void note_no_place(Place& place, const VerbsDevices& verbs);
  std::unique_ptr<QueuePair> make(Place& place, const VerbsChoice& choice, bool is_receiver,
                                  std::string* why);
  std::unique_ptr<QueuePair> answer(Place& place, const QueuePairTerms& terms, const Lane& over,
                                    std::string* why);
  size_t rail_of(const Lane& over) const;
  /// REQUIRES: its lane is up.
  bool has_lasted(const Place& place) const;
  QueuePair::Use use(const Place& place, bool is_receiver) const;

  Ground ground_;
  Nonce id_;
  bool is_closed_ = false;
  int64_t declined_again_ns_ = 0;
  std::vector<std::unique_ptr<Place>> places_;
  std::vector<Lane*> lanes_;  ///< of those
  std::string trouble_;
};

}  // namespace lyre::nccl_adapter
