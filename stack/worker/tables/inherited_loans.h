#pragma once

#include <algorithm>
#include <cstddef>
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
    if (at != places_.end() && is(*at, loan.context, loan.slot)) return false;
    places_.insert(at, {.loan = loan});
    ++count_;
    return true;
  }
  /// The client gives the slot back. Empty: it does not have it. The place stays until forget(): a
  /// turn takes back many, and moving the places behind each of them would take too long.
  std::optional<InheritedLoan> take_back(uint32_t context, uint32_t slot) {
    const auto at = find(context, slot);
    if (at == places_.end() || !is(*at, context, slot) || at->is_released) return std::nullopt;
    at->is_released = true;
    --count_;
    return at->loan;
  }
  void forget(uint32_t context) {
    std::erase_if(places_, [context](const Place& place) { return place.loan.context == context; });
    count_ = static_cast<size_t>(std::count_if(
        places_.begin(), places_.end(), [](const auto& place) { return !place.is_released; }));
  }
  template <typename Visit>
  void for_each_of(uint32_t context, Visit visit) const {
    for (auto at = find(context, 0); at != places_.end() && at->loan.context == context; ++at) {
      if (!at->is_released) visit(at->loan);
    }
  }
  bool empty() const { return count_ == 0; }

 private:
  struct Place {
    InheritedLoan loan;
    bool is_released = false;
  };
  static bool is(const Place& place, uint32_t context, uint32_t slot) {
    return place.loan.context == context && place.loan.slot == slot;
  }
  template <typename Places>
  static auto find_in(Places& places, uint32_t context, uint32_t slot) {
    return std::lower_bound(places.begin(), places.end(), std::pair(context, slot),
                            [](const Place& place, const auto& wanted) {
                              return std::pair(place.loan.context, place.loan.slot) < wanted;
                            });
  }
  std::vector<Place>::iterator find(uint32_t context, uint32_t slot) {
    return find_in(places_, context, slot);
  }
  std::vector<Place>::const_iterator find(uint32_t context, uint32_t slot) const {
    return find_in(places_, context, slot);
  }

  std::vector<Place> places_;  ///< by context, then slot
  size_t count_ = 0;           ///< of those that are not released
};

}  // namespace lyre::worker
