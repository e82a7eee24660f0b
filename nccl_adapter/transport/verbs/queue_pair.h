#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/protocol/queue_pair_terms.h"
#include "nccl_adapter/transport/transport.h"
#include "nccl_adapter/transport/verbs/devices.h"
#include "nccl_adapter/transport/verbs/places.h"
#include "nccl_adapter/transport/verbs/posted_sends.h"

namespace lyre::nccl_adapter {

/// A reliable connection of an RDMA device that carries frames: their bytes, cut into sends of one
/// slot at most, each into a receive that the other side has posted. How many of those were posted
/// again is said in credit frames, which go between other frames. In mode 2 the receiver exposes
/// posted receives, and payload is written there; a frame that follows says so.
/// Thread: under the instance's lock. Owner: a lane; the device outlives it. Destroying it brings
/// it to the error state first: then nothing reads or writes the memory that it used.
class QueuePair final : public Transport {
 public:
  /// What is decided before it is made.
  struct Use {
    uint32_t first_psn = 0;
    uint32_t modes = kModeSend;  ///< that this side takes part in
    bool is_receiver = false;    ///< of the comm's data
  };

  /// Not connected, its receives posted. Fails: nullptr, and `*why` says so.
  static std::unique_ptr<QueuePair> make(const VerbsPlace& place, const Use& use, std::string* why);
  ~QueuePair() override;

  /// What the other side has to know.
  QueuePairTerms terms() const;
  /// Connects to the one that the peer described. Fails: false, and `*why` says so.
  bool connect(const QueuePairTerms& peer, std::string* why);
  /// Sends a first frame: data follows when it is acknowledged. The other side waits until it hears
  /// something. A failure shows in has_failed() only: the caller may be in the middle of a frame.
  void probe();
  /// It was acknowledged, or heard something: there is a path.
  bool is_proven() const { return is_proven_ && !has_failed(); }
  /// The chunk can be sent now.
  bool has_room(const Chunk& chunk) const;
  Places& places() { return places_; }
  PostedSends& sends() { return posted_; }
  /// "rxe0 10.9.0.1 > 10.9.0.2, mode 2": the mode that both sides agreed on.
  std::string path_text() const;
  bool has_failed() const { return !why_.empty(); }
  /// Why it failed.
  const std::string& why() const { return why_; }

  // ---- For the device ----

  uint32_t number() const { return number_; }
  void on_completion(const ibv_wc& entry);
  void fail(const std::string& why);
  void notify();

  // ---- Transport ----

  void set_owner(SessionOwner* owner) override { owner_ = owner; }
  bool has_ended() const override { return has_failed() && received_.empty(); }
  int error() const override { return has_failed() ? LYRE_E_RESET : 0; }
  /// There is no order to end in: what has to arrive is said over TCP.
  void close() override { abort(); }
  void abort() override { fail("it was given up"); }
  /// REQUIRES: whole frames, all of which have a header only.
  Io send_small(std::span<const uint8_t> bytes) override;
  Io flush() override;
  Io send_chunk(const Chunk& chunk) override;
  uint64_t unacked_bytes() const override { return posted_.bytes_under_way(); }
  uint64_t rtt_min_us() const override { return 0; }
  /// The time that the device has for all of its tries, with its timeout.
  int64_t patience_ns() const override;
  bool is_window_closed() const override { return false; }
  bool is_blocked() const override { return !unsent_.empty() || is_credit_due(); }
  bool is_blocked_in(const lyre_region*) const override { return false; }

 private:
  QueuePair(const VerbsPlace& place, const Use& use);
  bool create(std::string* why);
  bool post_receive(uint32_t index);
  /// `request` needs only what it does.
  bool post(ibv_send_wr request, std::span<ibv_sge> pieces, const Memory* memory);
  Io write_chunk(const Chunk& chunk);
  /// Of the ring, or from kQueuePairSlots on of sends.
  uint8_t* slot(uint64_t index) const { return memory_.get() + index * kQueuePairSlotBytes; }
  uint8_t* send_slot() const { return slot(kQueuePairSlots + posted_.sends() % kQueuePairSlots); }
  uint32_t free_sends() const { return posted_.free(kQueuePairSlots, peer_.slots); }
  bool is_credit_due() const { return returned_ - told_ >= kQueuePairSlots / 2; }
  bool send_credit();
  Io take_slices(std::span<lyre_slice> out, size_t* count) override;
  void give_back(std::span<const lyre_slice> slices) override;

  VerbsDevice& device_;
  const VerbsApi& api_;
  uint8_t port_;
  uint32_t mtu_bytes_;
  Gid gid_;
  uint8_t timeout_;
  uint8_t traffic_class_;
  uint8_t service_level_;
  Use use_;
  std::unique_ptr<uint8_t, void (*)(uint8_t*)>
      memory_;            ///< the slots of the ring, then those of sends
  ibv_mr* mr_ = nullptr;  ///< of that
  ibv_qp* qp_ = nullptr;
  uint32_t inline_bytes_ = 0;
  uint32_t number_ = 0;  ///< the device's for it
  SessionOwner* owner_ = nullptr;
  QueuePairTerms peer_;
  bool is_proven_ = false;
  std::string why_;

  std::deque<lyre_slice> received_;  ///< not taken; token: the slot
  uint64_t returned_ = 0;            ///< receives posted again
  uint64_t told_ = 0;                ///< what of that the peer knows
  std::vector<uint8_t> unsent_;      ///< small frames that found no room
  PostedSends posted_;
  Places places_;
};

}  // namespace lyre::nccl_adapter
