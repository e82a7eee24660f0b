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
  /// Visits about `count_max` sessions, round all of them. visit(conn) returns whether the session
  /// leaves. The next step begins behind the last one that left, so that each has its turn where
  /// few leave per step. Where none left, it begins behind the last word that was looked at.
  /// REQUIRES: visit() adds none.
  template <typename Visit>
  void step(uint32_t count_max, Visit visit) {
    const uint32_t count_before = count_;
    const size_t first = next_ / kBits;
    const uint64_t behind = ~uint64_t{0} << (next_ % kBits);  // the others of the word come last
    size_t word = first;
    uint32_t visited = 0;
    for (size_t looked = 0; looked < words_.size() && looked < kWordsPerStepMax; ++looked) {
      if (count_ == 0 || visited >= count_max) break;
      visited += visit_bits(word, looked == 0 ? behind : ~uint64_t{0}, visit);
      word = word + 1 == words_.size() ? 0 : word + 1;
    }
    if (word == first) {
      visit_bits(word, ~behind, visit);
    } else if (count_ == count_before) {
      next_ = static_cast<uint32_t>(word * kBits);
    }
  }

 private:
  static constexpr uint32_t kBits = 64;

  template <typename Visit>
  uint32_t visit_bits(size_t word, uint64_t bits, Visit& visit) {
    uint32_t visited = 0;
    for (uint64_t left = words_[word] & bits; left != 0; left &= left - 1, ++visited) {
      const auto conn =
          static_cast<uint32_t>(word * kBits) + static_cast<uint32_t>(std::countr_zero(left));
      if (!visit(conn)) continue;
      words_[word] &= ~(left & -left);
      --count_;
      next_ = conn + 1 == words_.size() * kBits ? 0 : conn + 1;
    }
    return visited;
  }

  std::vector<uint64_t> words_;
  uint32_t next_ = 0;  ///< where the next step begins
  uint32_t count_ = 0;
};

}  // namespace lyre::worker
