#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "stack/base/check.h"

namespace lyre::worker {

/// Who has a receive slot that was lent.
struct SlotLoan {
  uint32_t context = UINT32_MAX;
  uint32_t session = UINT32_MAX;
  uint32_t generation = 0;  ///< of the session
  friend bool operator==(const SlotLoan&, const SlotLoan&) = default;
};

struct SlotLoanLimits {
  uint32_t contexts_max = 0;  ///< context indices are below this
  uint32_t per_session_max = 0;
};

/// The receive slots of a worker that clients read from: who has which. How many a client may have
/// is the business of ReceiveAccounts, which slots are free that of the packet memory.
/// Owner: takes its memory at construction. Thread: the worker.
class SlotLoans {
 public:
  SlotLoans(uint32_t slot_count, const SlotLoanLimits& limits)
      : slot_count_(slot_count),
        limits_(limits),
        loans_(new SlotLoan[slot_count]),
        counts_(limits.contexts_max) {}

  /// Whether one more slot may be lent for a session that has `of_session` already.
  bool may_lend(uint32_t of_session) const { return of_session < limits_.per_session_max; }
  /// REQUIRES: the slot is not lent, and may_lend().
  void lend(uint32_t slot, const SlotLoan& loan) {
    LYRE_CHECK(loans_[slot].context == UINT32_MAX);
    loans_[slot] = loan;
    ++counts_[loan.context];
  }
  /// Ends the loan and tells who had it. Empty: there is no such slot, or `context` does not have
  /// it. The slot's memory is the caller's to release.
  std::optional<SlotLoan> take_back(uint32_t slot, uint32_t context) {
    if (slot >= slot_count_ || loans_[slot].context != context) return std::nullopt;
    const SlotLoan loan = loans_[slot];
    loans_[slot] = SlotLoan{};
    --counts_[context];
    return loan;
  }

  /// Calls visit(slot, SlotLoan) for all that the client has. Looks at all slots.
  template <typename Visit>
  void for_each_of(uint32_t context, Visit visit) const {
    for (uint32_t slot = 0; slot < slot_count_; ++slot) {
      if (loans_[slot].context == context) visit(slot, loans_[slot]);
    }
  }

  uint32_t slot_count() const { return slot_count_; }
  /// Looks at all counts: for tests.
  bool empty() const {
    return std::all_of(counts_.begin(), counts_.end(), [](uint32_t count) { return count == 0; });
  }
  uint32_t lent_to(uint32_t context) const { return counts_[context]; }

  /// Breaks off the process when a count is not what the slots say (tests).
  void check_invariants() const {
    std::vector<uint32_t> found(counts_.size());
    for (uint32_t slot = 0; slot < slot_count_; ++slot) {
      if (loans_[slot].context != UINT32_MAX) ++found.at(loans_[slot].context);
    }
    LYRE_CHECK(found == counts_);
  }

 private:
  uint32_t slot_count_;
  SlotLoanLimits limits_;
  std::unique_ptr<SlotLoan[]> loans_;  ///< by slot
  std::vector<uint32_t> counts_;       ///< by context
};

}  // namespace lyre::worker
