#include "tests/sim/adapter/rate_check.h"

#include <string>

#include "tests/sim/adapter/world.h"

namespace lyre::adapter_sim {
namespace {

constexpr int64_t kMeasuredNs = 500 * kMs;

}  // namespace

void RateCheck::schedule() {
  if (world_->plan().rate_from_ns == 0) return;
  const int64_t from_ns = world_->begin_ns() + world_->plan().rate_from_ns;
  world_->events().at(from_ns, [this] { received_before_ = received(); });
  world_->events().at(from_ns + kMeasuredNs, [this] { end(); });
}

uint64_t RateCheck::received() const {
  uint64_t bytes = 0;
  for (const auto& connection : world_->network().connections()) {
    bytes += connection->ends[1].received;
  }
  return bytes;
}

void RateCheck::end() {
  const uint64_t bytes_per_s = (received() - received_before_) * kSecond / kMeasuredNs;
  world_->expect(bytes_per_s >= world_->plan().bytes_per_s_min,
                 "too slow: " + std::to_string(bytes_per_s) + " bytes a second, expected " +
                     std::to_string(world_->plan().bytes_per_s_min));
}

}  // namespace lyre::adapter_sim
