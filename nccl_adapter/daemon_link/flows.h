#pragma once

#include <cstdint>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

/// Flows that fill a port of `speed_mbps` of which one carries `flow_mbps`. 0 for either: unknown.
constexpr uint32_t flows_that_fill(uint32_t speed_mbps, uint32_t flow_mbps) {
  // A port that limits flows and does not say its speed: as many as are made.
  if (speed_mbps == 0) return flow_mbps == 0 ? 0 : kStreamsAutoMax;
  const uint32_t each = flow_mbps == 0 ? kFlowSpeedMbps : flow_mbps;
  return speed_mbps / each + (speed_mbps % each == 0 ? 0 : 1);
}

}  // namespace lyre::nccl_adapter
