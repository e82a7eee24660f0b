#pragma once

#include <string>
#include <vector>

namespace lyre::tools {

/// A line for each variable of the environment that begins with LYRE_ and that no program of Lyre
/// reads, with the known name that is closest where one is close. LYRE_TEST_ is for tests.
/// `environment` ends with a null pointer, as environ does.
std::vector<std::string> unknown_settings(const char* const* environment);

}  // namespace lyre::tools
