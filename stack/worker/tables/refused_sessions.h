#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lyre::worker {

/// Sessions that refused text for want of receive slots, a bit each: every session has a place, and
/// the budget of an idle session has no byte left (session.h). A bit says only that the session may
/// wait: it may have found room since, or its index may be another one's.
/// Owner: takes its memory at construction. Thread: the worker.
class RefusedSessions {
 public:
  /// Words that one step() looks at.
  static constexpr size_t kWordsPerStepMax = 256;

  explicit RefusedSessions(uint32_t sessions_max) : words_((sessions_max + kBits - 1) / kBits) {}

  bool empty() const { return count_ == 0; }
  /// No effect on one that is here.
  void add(uint32_t conn) {
    uint64_t& word = words_[conn / kBits];
    const uint64_t bit = uint64_t{1} << (conn % kBits);
    count_ += (word & bit) == 0;
    word |= bit;
  }
  /// Goes on round all sessions, for about `count_max` of them. visit(conn) returns whether the
  /// session leaves. REQUIRES: visit() adds none.
  template <typename Visit>
  void step(uint32_t count_max, Visit visit) {
    uint32_t visited = 0;
    for (size_t looked = 0; looked < words_.size() && looked < kWordsPerStepMax; ++looked) {
      if (count_ == 0 || visited >= count_max) return;
      visited += visit_word(visit);
      next_word_ = next_word_ + 1 == words_.size() ? 0 : next_word_ + 1;
    }
  }

 private:
  static constexpr uint32_t kBits = 64;

  template <typename Visit>
  uint32_t visit_word(Visit& visit) {
    uint32_t visited = 0;
    for (uint64_t left = words_[next_word_]; left != 0; left &= left - 1, ++visited) {
      const auto conn =
          static_cast<uint32_t>(next_word_ * kBits) + static_cast<uint32_t>(std::countr_zero(left));
      if (!visit(conn)) continue;
      words_[next_word_] &= ~(left & -left);
      --count_;
    }
    return visited;
  }

  std::vector<uint64_t> words_;
  size_t next_word_ = 0;
  uint32_t count_ = 0;
};

}  // namespace lyre::worker
