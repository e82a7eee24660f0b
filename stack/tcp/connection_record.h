#pragma once

#include <cstdint>

#include "stack/record/stream.h"
#include "stack/tcp/core.h"
#include "stack/tcp/receive_queue.h"

namespace lyre::tcp {

/// The connections of an engine as records: TCP's state, what was sent and is not acknowledged, and
/// the memory of the last reduction. The records of another process are validated.
/// Received text is not among them, because its bytes are not TCP's: receive_queue() has it before,
/// restore_text() takes it afterwards.
/// Thread: the engine's. Owner: *borrows* the engine's state until any other call on the engine.
class ConnectionRecords {
 public:
  explicit ConnectionRecords(Core& core) : core_(core) {}

  void write(ConnId conn, record::Writer& out) const;
  /// Opens `conn` as it was written, at `now` or before. `slot_bytes` is the charge of a packet
  /// from now on. REQUIRES: index_bound() <= conn < connections_max. Fails: false, and nothing is
  /// open, when the records are not right, contradict each other, or find no room.
  bool read(ConnId conn, uint32_t slot_bytes, Nanos now, record::Reader& in);
  /// Opens `conn` as CLOSED, without a peer, where read() failed: its application is still to be
  /// told. REQUIRES: nothing else was opened since.
  void open_closed(ConnId conn);
  /// A payload behind those that were restored before. Owner: takes it, unless it returns false: it
  /// cannot be there, or there is no room.
  bool restore_text(ConnId conn, const ReceivedText& text);
  /// The reader has payloads that are charged so much.
  void restore_charge(ConnId conn, uint32_t charge_bytes);
  /// Cookies that were sent at that time, or before, are still answered.
  Nanos last_cookie_at() const { return core_.last_cookie_at; }
  void restore_last_cookie_at(Nanos at) { core_.last_cookie_at = at; }
  /// The next poll_transmit() of an open connection has something to send, if only an ACK.
  void speak_up(ConnId conn);

 private:
  Core& core_;
};

}  // namespace lyre::tcp
