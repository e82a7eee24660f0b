#pragma once

#include <cstdint>
#include <deque>

#include "nccl_adapter/transport/environment.h"

namespace lyre::nccl_adapter {

/// The sends and writes that a queue pair has posted, in order: which of them are under way, and
/// how many receives of the peer the sends have taken.
/// Thread: under the instance's lock. Owner: the queue pair.
class PostedSends {
 public:
  /// `memory`: that the device reads in place; nullptr: a slot. `is_send`: it takes a receive of
  /// the peer, and has a slot here.
  void add(uint32_t bytes, const Memory* memory, bool is_send);
  /// The one whose number has these low bits is done, and with it all before it.
  void finish(uint32_t low_bits, uint32_t mask);
  /// The peer has posted so many receives again. Fails: false when it cannot have.
  bool on_credit(uint64_t posted);

  /// How many there were: the number of the next one.
  uint64_t count() const { return count_; }
  /// Of those, sends.
  uint64_t sends() const { return sends_; }
  uint64_t bytes_under_way() const { return bytes_; }
  /// Sends for which there is a slot here, and a receive among the peer's.
  uint32_t free(uint32_t slots, uint32_t peer_slots) const;
  /// The device still reads there.
  bool reads(const Memory* memory) const;

 private:
  struct Sent {
    uint32_t bytes;
    const Memory* memory;
    bool is_send;
  };

  std::deque<Sent> under_way_;  ///< not known to have arrived, oldest first
  uint64_t count_ = 0;
  uint64_t sends_ = 0;
  uint64_t sends_under_way_ = 0;
  uint64_t credited_ = 0;  ///< receives that the peer posted again
  uint64_t bytes_ = 0;     ///< under way
};

}  // namespace lyre::nccl_adapter
