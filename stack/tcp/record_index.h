#pragma once

#include "stack/base/slab.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/sequence_treap.h"

namespace lyre::tcp {

/// Finds a connection's records of sent data by sequence number, in O(log n).
///
/// Most connections are never searched. So a record enters the index at the first search after it
/// was appended, and a connection without SACK blocks pays nothing.
class RecordIndex {
 public:
  /// `root` is the connection's SentList::root, `seed` a secret of the engine.
  RecordIndex(Slab<SentRecord>& records, uint32_t& root, uint64_t seed)
      : records_(records), treap_(records, root, seed) {}

  /// The record of the list that ends in `tail` which contains `at`, or the first one after `at`;
  /// kNoNode when all end at or before `at`.
  uint32_t find(uint32_t tail, SeqNum at);
  /// `right` was split off `left` and follows it. When `left` is not in the index, neither gets in.
  void split(uint32_t left, uint32_t right);
  /// Removes `index` before its record is freed.
  void erase(uint32_t index);

 private:
  void add_up_to(uint32_t tail);
  void insert_after(uint32_t left, uint32_t index);

  Slab<SentRecord>& records_;
  SequenceTreap<SentRecord> treap_;
};

}  // namespace lyre::tcp
