#pragma once

#include <string>
#include <vector>

#include "tests/sim/world/world.h"

namespace lyre::sim {

/// Names of drivers that a plan's ports can be made to have.
std::vector<std::string> driver_names();

/// Both ports of the plan behave as this driver's. False: there is none of that name.
bool use_driver(WorldPlan& plan, const std::string& name);

}  // namespace lyre::sim
