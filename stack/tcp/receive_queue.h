#pragma once

#include <cstdint>
#include <optional>

#include "stack/base/slab.h"
#include "stack/tcp/receive_state.h"
#include "stack/tcp/sequence_treap.h"

namespace lyre::tcp {

/// The runs behind a connection's first gap, by sequence. Its root is ReceiveState::gap_root.
using RunIndex = SequenceTreap<ReceivedRun>;

/// A payload that the engine keeps, and the one before it, whose last byte is next to its first.
struct TouchingPayloads {
  PayloadSlice before;
  PayloadSlice run;
};

/// A payload that the engine keeps, and its place in sequence space.
struct ReceivedText {
  SeqNum start;
  PayloadSlice payload;
  uint32_t charge_bytes = 0;
};

/// The payloads that one connection keeps, as their owner takes them out: in order and unread, out
/// of order, or contained in a later one (superseded). receive.cc puts them in. The runs are sorted
/// and disjoint, and their charges are part of the connection's.
/// Thread: the engine's. Owner: *borrows* the state of one connection, until any other call on the
/// engine; the handles it returns pass to the caller.
class ReceiveQueue {
 public:
  /// `seed` is that of every RunIndex of the engine.
  ReceiveQueue(Slab<ReceivedRun>& runs, ReceiveState& rcv, uint64_t seed)
      : runs_(runs), rcv_(rcv), seed_(seed) {}

  /// The next range of in-order bytes from the front; empty when there is none. Its charge stays
  /// until Engine::on_app_release().
  std::optional<PayloadSlice> take_readable() {
    const uint32_t index = rcv_.run_head;
    if (index == kNoNode || index == rcv_.gap_head) return std::nullopt;
    const PayloadSlice slice = slice_of(runs_[index]);
    rcv_.run_head = runs_[index].next;
    (rcv_.run_head == kNoNode ? rcv_.run_tail : runs_[rcv_.run_head].prev) = kNoNode;
    runs_.give_back(index);
    return slice;
  }
  /// A payload whose bytes are contained in a longer one that arrived later. The caller frees its
  /// packet unread; it is no longer charged.
  std::optional<PayloadHandle> take_superseded();
  /// The last payload behind a gap: the caller frees its packet, and the peer will send it again
  /// (RFC 2018 8). Empty: none came out of order.
  std::optional<PayloadHandle> take_out_of_order();
  /// Any payload of the connection, to free its packet before Engine::release().
  std::optional<PayloadHandle> take_any();

  /// The last unread payload that ends at RCV.NXT. Empty: there is none.
  std::optional<PayloadSlice> unread_tail() const;
  /// `kept_run` as Effects names it, right after it was kept, and the payload that it continues.
  /// Empty: there is none.
  std::optional<TouchingPayloads> find_touching(uint32_t kept_run) const;
  /// The caller copied the bytes of `kept_run` behind those of the payload before it, and frees its
  /// packet: both are one, charged as the first was. REQUIRES: find_touching() found them.
  void join(uint32_t kept_run);

  /// Calls visit(ReceivedText) for all payloads, in order of sequence.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (uint32_t i = rcv_.run_head; i != kNoNode; i = runs_[i].next) {
      visit(ReceivedText{.start = runs_[i].start,
                         .payload = slice_of(runs_[i]),
                         .charge_bytes = runs_[i].charge_bytes});
    }
  }
  /// Where the first payload in order begins. Empty: there is none.
  std::optional<SeqNum> first_in_order() const {
    const uint32_t index = rcv_.run_head;
    if (index == kNoNode || index == rcv_.gap_head) return std::nullopt;
    return runs_[index].start;
  }
  /// The text in order follows without a gap, up to its end.
  bool is_gapless() const {
    std::optional<SeqNum> end;
    for (uint32_t i = rcv_.run_head; i != rcv_.gap_head; i = runs_[i].next) {
      if (end && *end != runs_[i].start) return false;
      end = runs_[i].end();
    }
    return !end || *end == text_end();
  }
  /// The end of the text in order: RCV.NXT, less the FIN.
  SeqNum text_end() const {
    return rcv_.has_fin && rcv_.nxt == rcv_.fin_seq + 1 ? rcv_.fin_seq : rcv_.nxt;
  }

  /// Aborts the process when an invariant does not hold. `text_end`: after the last byte of text in
  /// order.
  void check_invariants(SeqNum text_end) const;

 private:
  static PayloadSlice slice_of(const ReceivedRun& run) {
    return {.handle = run.handle, .offset = run.offset, .length = run.length};
  }
  PayloadHandle remove_unread(uint32_t index);
  void check_index() const;

  Slab<ReceivedRun>& runs_;
  ReceiveState& rcv_;
  uint64_t seed_;
};

}  // namespace lyre::tcp
