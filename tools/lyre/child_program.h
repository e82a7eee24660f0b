#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lyre::tools {

/// Runs a program, found by PATH, whose output goes where ours goes. Returns its exit status, 128
/// and more after a signal; none if it is not installed. SIGPIPE acts on it as by default, also
/// where this process ignores it.
std::optional<int> run_program(const std::vector<std::string>& command);

/// The same with all of its output in `output`.
std::optional<int> run_program(const std::vector<std::string>& command, std::string& output);

}  // namespace lyre::tools
