#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>

namespace lyre::tools {

/// Names that have series of their own, of a uid and of all. Users choose the names of their
/// programs and clients, and Prometheus keeps each series for hours.
inline constexpr uint32_t kMetricNamesPerUidMax = 16;
inline constexpr uint32_t kMetricNamesMax = 512;
/// For how long a name keeps its place after it was seen last.
inline constexpr int64_t kMetricNameHoldNs = 3'600'000'000'000;
/// The name of all that have no place, and the uid of those over the limit of all.
inline constexpr const char* kOtherNames = "other";

/// The labels of a series.
struct MetricPlace {
  std::string uid;
  std::string name;

  friend auto operator<=>(const MetricPlace&, const MetricPlace&) = default;
};

/// The places of names in series. Memory: bounded by the limits of this file. Thread: one.
class MetricPlaces {
 public:
  /// Gives places free that were not used for kMetricNameHoldNs.
  void forget_old(int64_t now_ns);
  /// Where the values of `name`, which is printable, are added up: its own place, the one for all
  /// others of its uid, or the one for all others. It is used at `now_ns`.
  MetricPlace of(uint32_t uid, const std::string& name, int64_t now_ns);
  bool holds(const MetricPlace& place) const { return used_ns_.contains(place); }

 private:
  bool try_use(const MetricPlace& place, uint32_t most_of_uid, int64_t now_ns);
  uint32_t count_of(const std::string& uid) const;

  std::map<MetricPlace, int64_t> used_ns_;  ///< when it was used last
};

}  // namespace lyre::tools
