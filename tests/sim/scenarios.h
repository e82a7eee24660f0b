#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/sim/simulation.h"

namespace lyre::sim {

std::vector<std::string> scenario_names();
/// The scenario `name`; what it leaves open (sizes, rates, options) is drawn from `seed`.
std::optional<Scenario> make_scenario(const std::string& name, uint64_t seed);
/// Empty when `outcome` is what `name` promises, else what is wrong.
std::string judge(const std::string& name, const Scenario& scenario, const Outcome& outcome);

}  // namespace lyre::sim
