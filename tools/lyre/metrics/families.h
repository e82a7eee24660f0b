#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "tools/lyre/comms.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// What Prometheus gets of a daemon; `lyre_up` alone where `daemon` is nullptr. Names and units are
/// by its conventions: bytes, seconds, counters end in _total.
std::vector<prometheus::MetricFamily> metrics_of(const Snapshot* daemon);
/// Of NCCL's connections.
std::vector<prometheus::MetricFamily> metrics_of(const CommsSnapshot& comms);

}  // namespace lyre::tools
