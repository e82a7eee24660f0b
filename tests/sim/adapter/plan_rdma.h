#pragma once

#include "tests/sim/adapter/draw.h"
#include "tests/sim/adapter/plan.h"

/// Worlds whose hosts have RDMA devices.
namespace lyre::adapter_sim {

/// Nothing breaks, a rank stands still for a while: at last every link has a queue pair.
void make_queue_pairs(Draw& draw, Plan* plan);
/// Queue pairs and devices come and go amid messages, as often as they like: TCP is there.
void make_fail_over(Draw& draw, Plan* plan);
/// Queue pairs break with writes under way, which arrive late; other messages follow.
void make_late_writes(Draw& draw, Plan* plan);
/// Devices are away for a while: at last every link has a queue pair again.
void make_rdma_return(Draw& draw, Plan* plan);

}  // namespace lyre::adapter_sim
