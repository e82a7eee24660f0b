#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

/// The names of variables that users set, for those who warn of others: the plugin and the command
/// line.
namespace lyre::nccl_abi {

/// Every variable that a program, a library or a script of deploy/ reads. A test compares it with
/// the sources.
inline constexpr std::string_view kSettingNames[] = {"LYRE_API_SERVER",
                                                     "LYRE_CONTAINER_MAIN",
                                                     "LYRE_DATA_DIR",
                                                     "LYRE_HANDSHAKE_TIMEOUT_MS",
                                                     "LYRE_KERNEL_ADDR",
                                                     "LYRE_KERNEL_SOCKS",
                                                     "LYRE_KERNEL_THREADS",
                                                     "LYRE_LATENCY_US",
                                                     "LYRE_NIC",
                                                     "LYRE_PEER_TIMEOUT_SECONDS",
                                                     "LYRE_PROLOG_SECONDS",
                                                     "LYRE_RAILS",
                                                     "LYRE_REQUIRED",
                                                     "LYRE_RESUME_SECONDS",
                                                     "LYRE_SERVICE_ACCOUNT",
                                                     "LYRE_SOCKET",
                                                     "LYRE_STREAMS",
                                                     "LYRE_TAINT_INTERVAL_SECONDS",
                                                     "LYRE_TELEMETRY_DIR",
                                                     "LYRE_VERBS",
                                                     "LYRE_VERBS_DEVICES",
                                                     "LYRE_VERBS_EMULATED",
                                                     "LYRE_VERBS_GID_INDEX",
                                                     "LYRE_VERBS_MODE",
                                                     "LYRE_VERBS_QUEUE_PAIRS",
                                                     "LYRE_VERBS_SERVICE_LEVEL",
                                                     "LYRE_VERBS_TIMEOUT",
                                                     "LYRE_VERBS_TRAFFIC_CLASS"};
inline constexpr std::string_view kSettingPrefix = "LYRE_";
inline constexpr std::string_view kTestSettingPrefix = "LYRE_TEST_";
/// A name with more differences is no misspelling.
inline constexpr size_t kDifferencesMax = 3;

/// Levenshtein distance.
inline size_t differences(std::string_view a, std::string_view b) {
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

inline std::string line_about(std::string_view name) {
  const auto* closest =
      std::min_element(std::begin(kSettingNames), std::end(kSettingNames),
                       [&](auto a, auto b) { return differences(name, a) < differences(name, b); });
  std::string line = std::string(name) + " is not a setting of Lyre, and is ignored";
  if (differences(name, *closest) <= kDifferencesMax) {
    line += "; is " + std::string(*closest) + " meant?";
  }
  return line;
}

/// A line for each variable of the environment that begins with LYRE_ and that no program of Lyre
/// reads, with the known name that is closest where one is close. LYRE_TEST_ is for tests.
/// `environment` ends with a null pointer, as environ does.
inline std::vector<std::string> unknown_settings(const char* const* environment) {
  std::vector<std::string> lines;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kSettingPrefix) || name.starts_with(kTestSettingPrefix)) continue;
    if (std::find(std::begin(kSettingNames), std::end(kSettingNames), name) ==
        std::end(kSettingNames)) {
      lines.push_back(line_about(name));
    }
  }
  return lines;
}

}  // namespace lyre::nccl_abi
