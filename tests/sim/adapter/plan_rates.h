#pragma once

#include "tests/sim/adapter/draw.h"
#include "tests/sim/adapter/plan.h"

/// Worlds whose network carries little, or little of each flow.
namespace lyre::adapter_sim {

/// Between two ranks, from one first port to the other.
LinkPlan& keep_one_link(Plan* plan);
/// TCP fills the queue of a slow path, loses what does not fit and waits for its timer, which is
/// long because the queue is: no reason to dial another stream.
void make_slow(Draw& draw, Plan* plan);
/// The network gives each flow so much, and the host some times as much: the plugin finds out how
/// many streams that takes.
void make_capped(Draw& draw, Plan* plan);
/// The same, and several connections share what the host has.
void make_capped_together(Draw& draw, Plan* plan);
/// The fabric has several paths, and two streams begin on one of them.
void make_paths(Draw& draw, Plan* plan);

}  // namespace lyre::adapter_sim
