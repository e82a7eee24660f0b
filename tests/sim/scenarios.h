#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/sim/simulation.h"

namespace lyre::sim {

std::vector<std::string> scenario_names();
/// The scenario `name`. Sizes, rates and options that it does not fix are drawn from `seed`.
std::optional<Scenario> make_scenario(const std::string& name, uint64_t seed);
/// Empty when `outcome` meets the requirements of `name`, else the difference.
std::string judge(const std::string& name, const Scenario& scenario, const Outcome& outcome);

}  // namespace lyre::sim
