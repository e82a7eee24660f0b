#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/sim/world/world.h"

namespace lyre::sim {

std::vector<std::string> world_names();
/// The scenario `name`; what it does not fix is drawn from `seed`. Empty for an unknown name.
std::optional<WorldPlan> make_world(const std::string& name, uint64_t seed);

}  // namespace lyre::sim
