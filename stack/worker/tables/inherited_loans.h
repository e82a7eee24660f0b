#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace lyre::worker {

/// A receive slot of an earlier daemon that a client has not released. The client keeps its
/// mapping of that pool. The release opens the session's window; no slot becomes free.
struct InheritedLoan {
  uint32_t context = 0;
  uint32_t slot = 0;  ///< in the pool that the client had then
  uint32_t session = UINT32_MAX;
  uint32_t generation = 0;  ///< of the session
  uint32_t charge_bytes = 0;
};

/// All of them. Nothing is added while the worker runs. Thread: the worker.
class InheritedLoans {
 public:
  /// False: the client has the slot already.
  bool add(const InheritedLoan& loan) {
    const auto at = find(loan.context, loan.slot);
    if (at != loans_.end() && is(*at, loan.context, loan.slot)) return false;
    loans_.insert(at, loan);
    return true;
  }
  /// The client gives the slot back. Empty: it does not have it.
  std::optional<InheritedLoan> take_back(uint32_t context, uint32_t slot) {
    const auto at = find(context, slot);
    if (at == loans_.end() || !is(*at, context, slot)) return std::nullopt;
    const InheritedLoan loan = *at;
    loans_.erase(at);
    return loan;
  }
  void forget(uint32_t context) {
    std::erase_if(loans_, [context](const auto& loan) { return loan.context == context; });
  }
  template <typename Visit>
  void for_each_of(uint32_t context, Visit visit) const {
    for (auto at = find(context, 0); at != loans_.end() && at->context == context; ++at) visit(*at);
  }
  bool empty() const { return loans_.empty(); }

 private:
  static bool is(const InheritedLoan& loan, uint32_t context, uint32_t slot) {
    return loan.context == context && loan.slot == slot;
  }
  template <typename Loans>
  static auto find_in(Loans& loans, uint32_t context, uint32_t slot) {
    return std::lower_bound(loans.begin(), loans.end(), std::pair(context, slot),
                            [](const InheritedLoan& loan, const auto& wanted) {
                              return std::pair(loan.context, loan.slot) < wanted;
                            });
  }
  std::vector<InheritedLoan>::iterator find(uint32_t context, uint32_t slot) {
    return find_in(loans_, context, slot);
  }
  std::vector<InheritedLoan>::const_iterator find(uint32_t context, uint32_t slot) const {
    return find_in(loans_, context, slot);
  }

  std::vector<InheritedLoan> loans_;  ///< by context, then slot
};

}  // namespace lyre::worker
