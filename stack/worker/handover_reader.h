#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stack/record/stream.h"
#include "stack/worker/context_lifecycle.h"
#include "stack/worker/control_replies.h"
#include "stack/worker/handover_records.h"
#include "stack/worker/inbox.h"
#include "stack/worker/received_payload.h"
#include "stack/worker/region_lifecycle.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/stats_writer.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// Restores a worker from the records of HandoverWriter. They come from another process, maybe of
/// another version: each value is checked, and so is its agreement with the others.
/// Received text is copied into this worker's receive pool. Slots of the earlier pool stay lent to
/// their clients, and are charged to the sessions until the clients release them.
/// Thread: the worker, before its first turn.
class HandoverReader {
 public:
  struct Parts {
    SessionLifecycle& lifecycle;
    ContextLifecycle& contexts;
    RegionLifecycle& regions;
    ReceivedPayload& payload;
    ControlReplies& replies;
    StatsWriter& stats_writer;
  };
  HandoverReader(WorkerState& state, const Parts& parts) : state_(state), parts_(parts) {}

  /// `memory`: a kAttach for each context, and a kAddRegion for each of its regions, as the control
  /// thread of this process mapped them.
  /// Fails: false when the records are not right, or do not fit into this worker. It must not make
  /// a turn then. A session whose records contradict each other does not fail all others: its
  /// client is told that it ended, and its peer is reset when it sends again.
  bool take_over(std::span<const Command> memory, record::Reader& in);
  uint32_t sessions_lost() const { return sessions_lost_; }
  /// Why take_over() failed: what does not fit into this worker, or that the records are not right.
  const char* refusal() const {
    return refusal_ != nullptr
               ? refusal_
               : "its configuration has smaller limits, or the records are not right";
  }

 private:
  bool read_contexts(uint32_t count, record::Reader& in);
  bool read_context(record::Reader& in);
  bool read_loans(const ContextRecord& record, record::Reader& in);
  bool read_leaving(const ContextRecord& record, record::Reader& in);
  bool read_failed_opens(Context& context, record::Reader& in);
  bool read_listeners(uint32_t count, record::Reader& in);
  bool may_listen_at(const IpAddress& address) const;
  bool read_session(record::Reader& in);
  bool restore_session(const SessionRecord& record, record::Reader& in);
  bool is_sound(const SessionRecord& record) const;
  bool restore_place(const SessionRecord& record);
  bool fits_mtu(uint32_t conn) const;
  bool restore_context(const SessionRecord& record);
  void restore_listener(const SessionRecord& record);
  void lose(const SessionRecord& record);
  void drop_restored(const SessionRecord& record);
  bool is_known_to_client(const SessionRecord& record) const;
  bool restore_pieces(const SessionRecord& record, record::Reader& in);
  bool restore_texts(const SessionRecord& record, record::Reader& in);
  bool restore_text(uint32_t conn, SeqNum start, std::span<const uint8_t> bytes);
  void restore_charges();
  void queue_by_age();
  void begin(uint32_t conn);
  bool is_of(uint32_t context, const BufRef& piece) const;

  struct Charge {
    uint32_t session = 0;
    uint32_t generation = 0;
    uint32_t bytes = 0;
    bool is_block = false;  ///< of the copy area
  };

  WorkerState& state_;
  Parts parts_;
  std::vector<uint32_t> sessions_;  ///< that were restored
  std::vector<Charge> charges_;     ///< of what clients have
  std::vector<ContextRecord> detaching_;
  uint32_t sessions_lost_ = 0;
  const char* refusal_ = nullptr;  ///< what is needed, and this configuration lacks
};

}  // namespace lyre::worker
