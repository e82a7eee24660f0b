#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace lyre::conformance {

/// Received payload that the engine knows by a handle: the slots of this host.
class PayloadStore {
 public:
  /// A copy of `payload` in a slot of its own.
  uint32_t keep(std::span<const uint8_t> payload) {
    slots_[next_].assign(payload.begin(), payload.end());
    return next_++;
  }
  const std::vector<uint8_t>& at(uint32_t slot) const { return slots_.at(slot); }
  void erase(uint32_t slot) { slots_.erase(slot); }
  size_t size() const { return slots_.size(); }

 private:
  std::map<uint32_t, std::vector<uint8_t>> slots_;
  uint32_t next_ = 0;
};

}  // namespace lyre::conformance
