#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "nccl_adapter/protocol/handle.h"
#include "nccl_adapter/transport/verbs/devices.h"

namespace lyre::nccl_adapter {

/// From which addresses a queue pair did not work, and which one is next. Neither side knows what
/// the other one can choose. The sender takes its places in turn, those of its rail at every second
/// attempt (QueuePairs::offer_one), and the receiver tries another place of its own each time that
/// an address of the sender comes again: so every pair of addresses has its turn, and the first
/// pairs differ in both.
/// Thread: under the instance's lock. Owner: a lane for queue pairs, on either side.
class FailedPlaces {
 public:
  /// The place that failed least with `remote`, of those the one that failed least at all, of those
  /// the first one, where lane number `lane` begins. `remote`: the peer's GID; of a side that does
  /// not know it when it chooses, all zeros each time. REQUIRES: there is one.
  const VerbsPlace& choose(const VerbsChoice& choice, size_t lane, const Address& remote) const;
  void note(const Address& own, const Address& remote);
  void forget() { failures_.clear(); }

 private:
  std::pair<uint32_t, uint32_t> failures(const Address& own, const Address& remote) const;

  std::map<std::pair<Address, Address>, uint32_t> failures_;  ///< by own and remote GID
};

}  // namespace lyre::nccl_adapter
