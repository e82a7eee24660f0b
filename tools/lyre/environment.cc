#include "tools/lyre/environment.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace lyre::tools {
namespace {

/// Every variable that a program or library of Lyre reads. A test compares it with the sources.
constexpr std::string_view kKnown[] = {"LYRE_DATA_DIR",
                                       "LYRE_HANDSHAKE_TIMEOUT_MS",
                                       "LYRE_KERNEL_ADDR",
                                       "LYRE_KERNEL_SOCKS",
                                       "LYRE_KERNEL_THREADS",
                                       "LYRE_LATENCY_US",
                                       "LYRE_PEER_TIMEOUT_SECONDS",
                                       "LYRE_RAILS",
                                       "LYRE_REQUIRED",
                                       "LYRE_RESUME_SECONDS",
                                       "LYRE_SOCKET",
                                       "LYRE_STREAMS",
                                       "LYRE_TELEMETRY_DIR",
                                       "LYRE_VERBS"};
constexpr std::string_view kPrefix = "LYRE_";
constexpr std::string_view kTestPrefix = "LYRE_TEST_";
/// A name with more differences is no misspelling.
constexpr size_t kDifferencesMax = 3;

/// Levenshtein distance.
size_t differences(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string line_about(std::string_view name) {
  const auto* closest = std::min_element(std::begin(kKnown), std::end(kKnown), [&](auto a, auto b) {
    return differences(name, a) < differences(name, b);
  });
  std::string line = std::string(name) + " is not a setting of Lyre, and is ignored";
  if (differences(name, *closest) <= kDifferencesMax) {
    line += "; is " + std::string(*closest) + " meant?";
  }
  return line;
}

}  // namespace

std::vector<std::string> unknown_settings(const char* const* environment) {
  std::vector<std::string> lines;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || name.starts_with(kTestPrefix)) continue;
    if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown)) {
      lines.push_back(line_about(name));
    }
  }
  return lines;
}

}  // namespace lyre::tools
