#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/transport/rails.h"

namespace lyre::nccl_adapter {

/// The rail pairs of a sending comm, in the order in which its lanes dial them. The near ones are
/// at the front: those that need no router, or, where all do, those whose ports have the same
/// place. Owner: the comm. Thread: under the instance's lock.
class RailChoice {
 public:
  /// The pairs are those of a handle at first, later those of an answer. `ports`: ours.
  void set(std::span<const lyre_port> ports, std::vector<RailPair> pairs);
  size_t size() const { return pairs_.size(); }
  const RailPair& operator[](size_t number) const { return pairs_[number]; }
  /// The pair's number; that of the first one if it is not there.
  size_t find(const RailPair& pair) const;
  /// Where lane number `index` begins if every rail is to be used.
  size_t spread_home(size_t index) const { return index % homes_; }
  /// After so many dials every near pair had its turn; with many pairs, most had.
  size_t turn() const;

  /// The one to dial after `number` failed; numbers go round, here and below. `far_pairs`: how
  /// often that lane took one that is not near.
  size_t next(size_t number, size_t* far_pairs) const;
  /// The one to take where `number` is slow, another one with each `turn`: a home that shares no
  /// port with it, or else another home, if there is one.
  size_t beside(size_t number, size_t turn) const;

 private:
  bool is_every_port_near() const;

  std::vector<RailPair> pairs_;
  size_t near_ = 0;   ///< of the front of pairs_
  size_t homes_ = 1;  ///< the same: lanes begin on these
};

}  // namespace lyre::nccl_adapter
