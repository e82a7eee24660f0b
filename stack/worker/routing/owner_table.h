#pragma once

#include <cstdint>

#include "stack/base/ip_address.h"
#include "stack/base/siphash.h"
#include "stack/base/slab.h"
#include "stack/worker/flow_table.h"

namespace lyre::worker {

/// Which worker has the connections whose home is here. Thread: the worker.
class OwnerTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  OwnerTable(uint32_t entries_max, SipKey key) : entries_(entries_max), index_(entries_max, key) {}

  /// The worker that claimed the connection, or kNone.
  uint32_t find(const FourTuple& tuple) const {
    const uint32_t entry = locate(tuple);
    return entry == FlowTable::kNone ? kNone : entries_[entry].owner;
  }
  /// The last claim holds. False: the table is full, and the connection cannot be found.
  bool claim(const FourTuple& tuple, uint32_t owner) {
    uint32_t entry = locate(tuple);
    if (entry == FlowTable::kNone) {
      entry = entries_.take();
      if (entry == Slab<Entry>::kNone) return false;
      entries_[entry].tuple = tuple;
      index_.insert(tuple, entry);
    }
    entries_[entry].owner = owner;
    return true;
  }
  /// Withdraws a claim of `owner`; the later claim of another worker stays.
  void unclaim(const FourTuple& tuple, uint32_t owner) {
    const uint32_t entry = locate(tuple);
    if (entry == FlowTable::kNone || entries_[entry].owner != owner) return;
    index_.erase(tuple, entry);
    entries_.give_back(entry);
  }
  uint32_t used() const { return entries_.used(); }
  /// The home of a connection: the same at every worker. REQUIRES: worker_count > 0.
  uint32_t home_of(const FourTuple& tuple, uint32_t worker_count) const {
    // By the highest bits: the lowest ones choose the place in the table of a home.
    return static_cast<uint32_t>((uint64_t{index_.hash(tuple)} * worker_count) >> 32);
  }

 private:
  struct Entry {
    FourTuple tuple;
    uint32_t owner = kNone;
  };
  uint32_t locate(const FourTuple& tuple) const {
    return index_.find(
        tuple, [this](uint32_t entry) -> const FourTuple& { return entries_[entry].tuple; });
  }

  Slab<Entry> entries_;
  FlowTable index_;
};

}  // namespace lyre::worker
