#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lyre {

/// One thing of which clients or peers can use up what the daemon has.
struct Limit {
  std::string_view what;      ///< and of whom
  std::string value;          ///< the default, in words
  std::string_view key;       ///< of the configuration, "section.name"; empty: not configurable
  std::string_view at_limit;  ///< what happens to whom
};

/// All limits, with defaults from the constants and keys that the code uses. tests/lint/limits.py
/// makes a table for readers of it.
std::vector<Limit> limits();

}  // namespace lyre
