#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>

/// Which versions of the control protocol and of the channel's memory layout (the ABI) one side
/// speaks. Client and daemon are replaced at different times, so each states a range and both use
/// the highest version that is in both ranges (docs/design/channel_abi.md).
namespace lyre::channel {

struct VersionRange {
  uint16_t min;
  uint16_t max;

  constexpr bool has(uint32_t version) const { return min <= version && version <= max; }
};

/// The highest version that both sides speak, or none. A range that is empty has none.
constexpr std::optional<uint16_t> common_version(VersionRange a, VersionRange b) {
  const uint16_t version = std::min(a.max, b.max);
  if (!a.has(version) || !b.has(version)) return std::nullopt;
  return version;
}

/// "3" or "3 to 5", zero-terminated.
struct RangeText {
  char text[28];
};
inline RangeText range_text(VersionRange range) {
  RangeText out;
  const char* format = range.min == range.max ? "%u" : "%u to %u";
  std::snprintf(out.text, sizeof out.text, format, unsigned{range.min}, unsigned{range.max});
  return out;
}

/// The line for ranges without a common version, zero-terminated. `we` and `they` are what a user
/// would upgrade.
struct VersionLine {
  char text[192];
};
inline VersionLine no_common_version(const char* what, const char* we, VersionRange ours,
                                     const char* they, VersionRange theirs) {
  VersionLine out;
  std::snprintf(out.text, sizeof out.text, "%s speaks %s version %s, %s %s: upgrade %s", they, what,
                range_text(theirs).text, we, range_text(ours).text,
                theirs.max < ours.min ? they : we);
  return out;
}

}  // namespace lyre::channel
