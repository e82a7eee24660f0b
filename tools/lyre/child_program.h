#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lyre::tools {

/// Runs a program, found by PATH or where lyred and programs for root are installed, whose output
/// goes where ours goes. Returns its exit status, 128 and more after a signal; none if it was not
/// started, with the reason in errno: ENOENT if it is not installed. SIGPIPE acts on it as by
/// default, also where this process ignores it. Appends to this process's PATH.
/// Thread: one, while there is no other.
std::optional<int> run_program(const std::vector<std::string>& command);

/// The same with all of its output in `output`.
std::optional<int> run_program(const std::vector<std::string>& command, std::string& output);

}  // namespace lyre::tools
