#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "tools/lyre/comms.h"
#include "tools/lyre/metrics/client_groups.h"
#include "tools/lyre/metrics/comm_groups.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// What Prometheus gets of a daemon; `lyre_up` alone where `daemon` is nullptr. Names and units are
/// by its conventions: bytes, seconds, counters end in _total. `clients` has looked at `daemon`.
std::vector<prometheus::MetricFamily> metrics_of(const Snapshot* daemon,
                                                 const ClientGroups& clients);
/// Of NCCL's connections, added up. `groups` has looked at `comms`.
std::vector<prometheus::MetricFamily> metrics_of(const CommsSnapshot& comms,
                                                 const CommGroups& groups);
/// Of each of them: series whose number nothing bounds in time, because each comm has a new id.
std::vector<prometheus::MetricFamily> metrics_of_each(const CommsSnapshot& comms);

}  // namespace lyre::tools
