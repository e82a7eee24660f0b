#pragma once

#include <cstdint>

#include "stack/base/ip_address.h"
#include "stack/base/ip_marking.h"
#include "stack/base/nanos.h"
#include "stack/base/seq_num.h"
#include "stack/channel/abi.h"

/// The records of a worker, and their fields in the order of the format. `Fields` is a
/// record::FieldWriter or a record::FieldReader. A field that a later version adds comes last in
/// its list, behind has_since(). docs/design/decisions/0010-a-successor-takes-records.md
/// explains it.
namespace lyre::worker {

inline constexpr uint16_t kHandoverVersion = 1;  ///< of all records below

/// Facts of the worker itself.
struct WorkerRecord {
  uint32_t session_generations = 0;  ///< generations up to this one were used
  uint32_t listener_generations = 0;
  uint32_t context_count = 0;
  uint32_t listener_count = 0;
  uint32_t session_count = 0;
  Nanos last_cookie_at;
};

template <typename Fields, typename T>
void list_worker(Fields& fields, T& record) {
  fields.number(record.session_generations);
  fields.number(record.listener_generations);
  fields.number(record.context_count);
  fields.number(record.listener_count);
  fields.number(record.session_count);
  fields.number(record.last_cookie_at.value, INT64_MIN / 2, INT64_MAX / 2);  // never: long ago
}

/// What is known of a client beside the command that attached it.
struct ContextRecord {
  uint32_t index = 0;
  uint32_t submissions_position = 0;
  uint32_t completions_position = 0;
  bool is_expelled = false;
  bool is_detaching = false;
  bool resets_sessions = false;
  Nanos linger_until;
  uint32_t loan_count = 0;
  uint32_t copy_block_count = 0;
  uint32_t leaving_count = 0;  ///< regions
};

template <typename Fields, typename T>
void list_context(Fields& fields, T& record) {
  fields.number(record.index);
  fields.number(record.submissions_position);
  fields.number(record.completions_position);
  fields.flag(record.is_expelled);
  fields.flag(record.is_detaching);
  fields.flag(record.resets_sessions);
  fields.time(record.linger_until);
  fields.number(record.loan_count);
  fields.number(record.copy_block_count);
  fields.number(record.leaving_count);
}

/// A slot, or a block of the copy area, that the client has.
struct LoanRecord {
  uint32_t slot = 0;
  uint32_t session = 0;
  uint32_t generation = 0;
  uint32_t charge_bytes = 0;
};

template <typename Fields, typename T>
void list_loan(Fields& fields, T& record) {
  fields.number(record.slot);
  fields.number(record.session);
  fields.number(record.generation);
  fields.number(record.charge_bytes, 0u, 1u << 20);
}

/// Those of a context follow its other records; their number is not written.
template <typename Fields, typename T>
void list_failed_open(Fields& fields, T& failed) {
  fields.number(failed.cookie);
  fields.one_of(failed.status, channel::EndStatus::kAddressLost);
  fields.address(failed.tuple.local.address);
  fields.number(failed.tuple.local.port);
  fields.address(failed.tuple.remote.address);
  fields.number(failed.tuple.remote.port);
}

struct ListenerRecord {
  uint32_t index = 0;
  uint32_t generation = 0;
  uint32_t context = 0;
  Endpoint local;
  uint64_t cookie = 0;
  uint32_t backlog = 1;
};

template <typename Fields, typename T>
void list_listener(Fields& fields, T& record) {
  fields.number(record.index);
  fields.number(record.generation, 1u, UINT32_MAX);
  fields.number(record.context);
  fields.address(record.local.address);
  fields.number(record.local.port, uint16_t{1}, uint16_t{UINT16_MAX});
  fields.number(record.cookie);
  fields.number(record.backlog, 1u, uint32_t{UINT16_MAX});
}

struct SessionRecord {
  uint32_t conn = 0;
  uint32_t generation = 0;
  uint32_t context = UINT32_MAX;
  uint32_t listener = UINT32_MAX;
  uint32_t listener_generation = 0;
  uint64_t cookie = 0;
  Nanos opened_at;
  Nanos sends_announced_at;
  uint64_t finished_count = 0;
  uint32_t announced_sends = 0;
  uint32_t head_acked_bytes = 0;
  uint32_t flow_label = 0;
  bool is_passive = false;
  bool is_embryonic = false;
  bool was_announced = false;
  bool is_shut_down = false;
  bool is_closed_by_client = false;
  bool was_retransmitted = false;
  bool is_over = false;
  bool must_announce_open = false;
  bool must_announce_progress = false;
  bool is_told_closed = false;
  bool must_announce_finish = false;
  bool must_announce_end = false;
  channel::EndStatus end_status = channel::EndStatus::kOk;
  IpMarking marking;
  uint64_t copied_tx_bytes = 0;
  uint64_t copied_rx_bytes = 0;
  uint64_t client_copied_tx_bytes = 0;
  uint64_t client_copied_rx_bytes = 0;
  uint32_t piece_count = 0;
  uint32_t text_count = 0;
};

template <typename Fields, typename T>
void list_session_flags(Fields& fields, T& record) {
  fields.flag(record.is_passive);
  fields.flag(record.is_embryonic);
  fields.flag(record.was_announced);
  fields.flag(record.is_shut_down);
  fields.flag(record.is_closed_by_client);
  fields.flag(record.was_retransmitted);
  fields.flag(record.is_over);
  fields.flag(record.must_announce_open);
  fields.flag(record.must_announce_progress);
  fields.flag(record.is_told_closed);
  fields.flag(record.must_announce_finish);
  fields.flag(record.must_announce_end);
}

template <typename Fields, typename T>
void list_session(Fields& fields, T& record) {
  fields.number(record.conn);
  fields.number(record.generation, 1u, UINT32_MAX);
  fields.number(record.context);
  fields.number(record.listener);
  fields.number(record.listener_generation);
  fields.number(record.cookie);
  fields.time(record.opened_at);
  fields.time(record.sends_announced_at);
  fields.number(record.finished_count);
  fields.number(record.announced_sends);
  fields.number(record.head_acked_bytes, 0u, channel::kSendBytesMax);
  fields.number(record.flow_label, 0u, (1u << 20) - 1);  // RFC 8200 3
  list_session_flags(fields, record);
  fields.one_of(record.end_status, channel::EndStatus::kAddressLost);
  fields.number(record.marking.dscp, uint8_t{0}, uint8_t{63});  // RFC 2474 3
  fields.number(record.marking.hop_limit, uint8_t{1}, uint8_t{UINT8_MAX});
  fields.number(record.copied_tx_bytes);
  fields.number(record.copied_rx_bytes);
  fields.number(record.client_copied_tx_bytes);
  fields.number(record.client_copied_rx_bytes);
  fields.number(record.piece_count, 0u, channel::kSendsOutstandingMax);
  fields.number(record.text_count);
}

template <typename Fields, typename T>
void list_piece(Fields& fields, T& piece) {
  fields.number(piece.region);
  fields.number(piece.length, 1u, channel::kSendBytesMax);
  fields.number(piece.offset);
}

/// Text of one kReceived record; its bytes follow.
inline constexpr uint32_t kTextBytesMax = 32768;

}  // namespace lyre::worker
