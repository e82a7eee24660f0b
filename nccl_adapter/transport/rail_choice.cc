#include "nccl_adapter/transport/rail_choice.h"

#include <algorithm>
#include <utility>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

void RailChoice::set(std::span<const lyre_port> ports, std::vector<RailPair> pairs) {
  pairs_ = std::move(pairs);
  near_ = count_on_link(ports, pairs_);
  if (near_ == 0) near_ = count_same_place(pairs_);
  // Lanes that begin on near pairs only shall leave no port out.
  homes_ = std::max<size_t>(is_every_port_near() ? near_ : pairs_.size(), 1);
}

bool RailChoice::is_every_port_near() const {
  const std::span near(pairs_.data(), near_);
  return std::all_of(pairs_.begin(), pairs_.end(), [&](const RailPair& pair) {
    const auto has_local = [&](const RailPair& other) { return other.local == pair.local; };
    const auto has_remote = [&](const RailPair& other) { return other.remote == pair.remote; };
    return std::any_of(near.begin(), near.end(), has_local) &&
           std::any_of(near.begin(), near.end(), has_remote);
  });
}

size_t RailChoice::find(const RailPair& pair) const {
  const auto place = std::find(pairs_.begin(), pairs_.end(), pair);
  return place != pairs_.end() ? static_cast<size_t>(place - pairs_.begin()) : 0;
}

size_t RailChoice::turn() const {
  const size_t far_pairs = near_ < pairs_.size() ? 1 : 0;
  return std::min(near_ > 0 ? near_ + far_pairs : pairs_.size(), kRailsMax);
}

// The others may have no path at all, and may be many: the near ones have their turn before each
// of these.
size_t RailChoice::next(size_t number, size_t* far_pairs) const {
  number %= pairs_.size();
  const size_t far = pairs_.size() - near_;
  if (near_ == 0 || far == 0) return (number + 1) % pairs_.size();
  if (number + 1 == near_) return near_ + (*far_pairs)++ % far;
  return number < near_ ? number + 1 : 0;
}

// Either end of a slow pair may be the reason.
size_t RailChoice::beside(size_t number, size_t turn) const {
  const RailPair& slow = pairs_[number % pairs_.size()];
  for (size_t i = 0; i < homes_; ++i) {
    const size_t candidate = (number + turn + i) % homes_;
    const RailPair& pair = pairs_[candidate];
    if (pair.local != slow.local && pair.remote != slow.remote) return candidate;
  }
  return (number + 1) % homes_;
}

}  // namespace lyre::nccl_adapter
