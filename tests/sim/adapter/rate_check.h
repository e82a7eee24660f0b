#pragma once

#include <cstdint>

namespace lyre::adapter_sim {

class World;

/// Compares what all links together carry with what the plan asks of them.
class RateCheck {
 public:
  explicit RateCheck(World* world) : world_(world) {}
  /// Nothing, where the plan asks for no rate.
  void schedule();

 private:
  uint64_t received() const;
  void end();

  World* world_;
  uint64_t received_before_ = 0;
};

}  // namespace lyre::adapter_sim
