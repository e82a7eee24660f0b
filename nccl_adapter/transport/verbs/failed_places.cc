#include "nccl_adapter/transport/verbs/failed_places.h"

namespace lyre::nccl_adapter {
namespace {

constexpr size_t kFailedPairsMax = 256;

}  // namespace

const VerbsPlace& FailedPlaces::choose(const VerbsChoice& choice, size_t lane,
                                       const Address& remote) const {
  const VerbsPlace* least = nullptr;
  for (size_t i = 0; i < choice.places.size(); ++i) {
    const size_t turn = i < choice.best ? (i + lane) % choice.best : i;
    const VerbsPlace& place = choice.places[turn];
    const bool is_better = least == nullptr || failures(place.gid.address, remote) <
                                                   failures(least->gid.address, remote);
    if (is_better) least = &place;
  }
  return *least;
}

// A peer may name any number of addresses.
void FailedPlaces::note(const Address& own, const Address& remote) {
  if (failures_.size() >= kFailedPairsMax) failures_.clear();
  ++failures_[{own, remote}];
}

std::pair<uint32_t, uint32_t> FailedPlaces::failures(const Address& own,
                                                     const Address& remote) const {
  std::pair<uint32_t, uint32_t> counts;
  for (auto one = failures_.lower_bound({own, Address{}});
       one != failures_.end() && one->first.first == own; ++one) {
    counts.second += one->second;
    if (one->first.second == remote) counts.first = one->second;
  }
  return counts;
}

}  // namespace lyre::nccl_adapter
