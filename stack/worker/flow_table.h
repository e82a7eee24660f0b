#pragma once

#include <bit>
#include <cstdint>
#include <memory>

#include "stack/base/check.h"
#include "stack/base/ip_address.h"
#include "stack/base/siphash.h"

namespace lyre::worker {

/// 4-tuple to connection index: open addressing, linear probing, at most half full.
/// The hash is keyed, so that a peer cannot choose tuples that collide.
/// Thread: the worker. Memory is taken at construction.
class FlowTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  FlowTable(uint32_t flows_max, SipKey key)
      : key_(key), mask_(std::bit_ceil(flows_max * 2u) - 1), entries_(new Entry[mask_ + 1]) {}

  /// `tuple_of(conn)` gives the tuple of an index: the table keeps only a tag of it.
  template <typename TupleOf>
  uint32_t find(const FourTuple& tuple, TupleOf tuple_of) const {
    const uint32_t tag = hash(tuple);
    for (uint32_t at = tag & mask_;; at = (at + 1) & mask_) {
      const Entry& entry = entries_[at];
      if (entry.conn == kNone) return kNone;
      if (entry.tag == tag && tuple_of(entry.conn) == tuple) return entry.conn;
    }
  }
  /// REQUIRES: `tuple` is not in the table and fewer than flows_max are.
  void insert(const FourTuple& tuple, uint32_t conn) {
    const uint32_t tag = hash(tuple);
    uint32_t at = tag & mask_;
    while (entries_[at].conn != kNone) at = (at + 1) & mask_;
    entries_[at] = {.tag = tag, .conn = conn};
  }
  void erase(const FourTuple& tuple, uint32_t conn) {
    uint32_t at = hash(tuple) & mask_;
    while (entries_[at].conn != conn) {
      if (entries_[at].conn == kNone) return;
      at = (at + 1) & mask_;
    }
    close_gap(at);
  }

  uint32_t hash(const FourTuple& tuple) const {
    uint64_t words[4];
    static_assert(sizeof(IpAddress) == 16);
    std::memcpy(words, tuple.local.address.bytes.data(), 16);
    std::memcpy(words + 2, tuple.remote.address.bytes.data(), 16);
    const uint64_t ports = (uint64_t{tuple.local.port} << 16) | tuple.remote.port;
    // A key with few bits set, as tests have, would not mix by itself.
    constexpr uint64_t kManyBits = 0x9e3779b97f4a7c15;
    // Each word meets the key before another one: a peer can choose all of its address, and would
    // make one word cancel another.
    const uint64_t k0 = key_.k0 ^ kManyBits;
    const uint64_t k1 = key_.k1 ^ std::rotl(kManyBits, 32);
    const uint64_t remote = mix(words[2] ^ k0, words[3] ^ k1);
    const uint64_t both = mix(words[0] ^ remote, words[1] ^ k0);
    return static_cast<uint32_t>(mix(both ^ ports, k1) >> 16);
  }

 private:
  struct Entry {
    uint32_t tag = 0;
    uint32_t conn = kNone;
  };
  __extension__ using Wide = unsigned __int128;
  static uint64_t mix(uint64_t a, uint64_t b) {
    const Wide product = Wide{a} * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  /// Backward shift: later entries of the run move up, so that no tombstone is needed.
  void close_gap(uint32_t gap) {
    for (uint32_t at = (gap + 1) & mask_; entries_[at].conn != kNone; at = (at + 1) & mask_) {
      const uint32_t home = entries_[at].tag & mask_;
      if (((at - home) & mask_) >= ((at - gap) & mask_)) {
        entries_[gap] = entries_[at];
        gap = at;
      }
    }
    entries_[gap] = Entry{};
  }

  SipKey key_;
  uint32_t mask_;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace lyre::worker
