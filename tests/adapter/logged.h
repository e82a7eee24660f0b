#pragma once

#include <cstddef>
#include <string>
#include <vector>

/// Searches the lines that the plugin logged in this process.
namespace lyre::test {

/// The texts of its warnings, oldest first.
std::vector<std::string> logged_warnings();
/// Whether one of the warnings contains `text`.
bool has_logged(const std::string& text);
size_t count_logged(const std::string& text);
/// All lines, for a failed EXPECT.
std::string logged_text();

}  // namespace lyre::test
