#include "tools/lyre/metrics/metric_places.h"

namespace lyre::tools {

void MetricPlaces::forget_old(int64_t now_ns) {
  std::erase_if(used_ns_,
                [&](const auto& each) { return now_ns - each.second > kMetricNameHoldNs; });
}

MetricPlace MetricPlaces::of(uint32_t uid, const std::string& name, int64_t now_ns) {
  const MetricPlace own{std::to_string(uid), name};
  if (try_use(own, kMetricNamesPerUidMax, now_ns)) return own;
  const MetricPlace others{own.uid, kOtherNames};
  if (try_use(others, kMetricNamesPerUidMax + 1, now_ns)) return others;
  const MetricPlace of_all{kOtherNames, kOtherNames};
  used_ns_[of_all] = now_ns;
  return of_all;
}

bool MetricPlaces::try_use(const MetricPlace& place, uint32_t most_of_uid, int64_t now_ns) {
  const auto at = used_ns_.find(place);
  if (at == used_ns_.end() &&
      (used_ns_.size() >= kMetricNamesMax || count_of(place.uid) >= most_of_uid)) {
    return false;
  }
  used_ns_[place] = now_ns;
  return true;
}

uint32_t MetricPlaces::count_of(const std::string& uid) const {
  uint32_t count = 0;
  for (auto at = used_ns_.lower_bound({uid, ""}); at != used_ns_.end(); ++at) {
    if (at->first.uid != uid) break;
    ++count;
  }
  return count;
}

}  // namespace lyre::tools
