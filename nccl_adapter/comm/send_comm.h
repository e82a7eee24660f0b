#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nccl_adapter/comm/comm.h"
#include "nccl_adapter/comm/delivery_watch.h"
#include "nccl_adapter/comm/send_queue.h"
#include "nccl_adapter/protocol/handle.h"
#include "nccl_adapter/transport/rail_choice.h"
#include "nccl_adapter/transport/slow_streams.h"
#include "nccl_adapter/transport/stream_count.h"

namespace lyre::nccl_adapter {

/// The end that sends, and that dials: the first lane for connect(), the others in the background,
/// and each one again that breaks, stalls or is slow.
class SendComm final : public Comm {
 public:
  /// `id` is unique; `device` is the port that NCCL chose.
  SendComm(Environment* environment, const Nonce& id, size_t device, const Handle& handle);
  ~SendComm() override;

  /// The first lane is there: NCCL may have the comm.
  bool is_connected() const { return is_connected_; }
  /// The receiver lost all streams and is there again: dials each one now, whatever is known of it.
  void redial_all();

 private:
  Request* post_request(void* data, uint64_t bytes) override { return queue_.post(data, bytes); }
  RequestTable& requests() override { return queue_.requests(); }
  const RequestTable& requests() const override { return queue_.requests(); }
  bool is_sender() const override { return true; }
  void describe(nccl_abi::CommView* out) const override;
  void pump_out() override;
  bool take(Lane& lane, std::span<const uint8_t> bytes) override;
  void on_lane_lost(Lane& lane) override;
  void watch(int64_t now_ns) override;
  bool is_awaiting() const override { return Comm::is_awaiting() || !is_connected_; }
  bool is_answer_due() const override;

  // ---- Frames (send_comm.cc) ----
  /// Into how many pieces a message is cut.
  size_t carriers() const;
  /// The most that one of them may have, as fast as the streams are.
  uint64_t piece_bytes_max() const;
  Lane* choose_lane(const Chunk& chunk);
  Io send(Lane& lane, const Chunk& chunk);
  void give(Lane& lane, const Chunk& chunk, bool is_written);
  void on_frame(Lane& lane);
  void on_fail_frame(const Lane& lane);

  // ---- Lanes (send_lanes.cc) ----
  void set_home(Lane& lane) const;
  void dial(Lane& lane, size_t number, int64_t now_ns);
  int64_t dial_ns() const;
  void advance_dial(Lane& lane, int64_t now_ns);
  void on_welcome(Lane& lane, int64_t now_ns);
  void on_connected(Lane& lane, const RailPair& pair, const Answer& answer);
  void on_refusal(Lane& lane, int64_t now_ns);
  void on_dial_failed(Lane& lane, int64_t now_ns);
  void watch_lane(Lane& lane, int64_t now_ns);
  void give_up_stalled(Lane& lane, int64_t now_ns);
  void redial(Lane& lane, int64_t now_ns);
  void replace_slow_lane(int64_t now_ns);
  /// The first `wanted_` lanes are, and the first one that is up, whatever its index: where none of
  /// them can be dialled, the comm goes on with it.
  bool is_wanted(const Lane& lane) const {
    return lane.index < wanted_ || &lane == lanes_.first_up();
  }
  size_t wanted_up() const;
  void await_queue_pair(int64_t now_ns);
  void adapt_count(int64_t passed_ns);
  void follow_count(bool is_busy, int64_t passed_ns);
  void retire(Lane& lane, int64_t now_ns);
  void send_again(Lane& lane);

  SendQueue queue_;
  Handle handle_;
  size_t device_;
  RailChoice pairs_;
  size_t last_lane_ = 0;
  StreamCount& count_;      ///< of the port
  size_t wanted_;           ///< streams of this comm
  size_t known_count_ = 0;  ///< count_.wanted() at the last look
  int64_t idle_ns_ = 0;
  SlowStreams slow_streams_;
  DeliveryWatch delivery_watch_;
  int64_t watched_ns_;           ///< when watch() looked last
  bool was_backlogged_ = false;  ///< at that time
  bool is_connected_ = false;
  int64_t without_queue_pair_ns_ = 0;  ///< since when data waits for one; 0: it does not
  uint64_t again_bytes_ = 0;
};

}  // namespace lyre::nccl_adapter
