#include "nccl_adapter/transport/slow_streams.h"

#include <algorithm>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

std::optional<SlowStreams::Slow> SlowStreams::look(std::span<const Look> streams) {
  Slow slowest;
  for (const Look& look : streams) {
    const double percent = judge(look, streams);
    if (percent < slowest.percent) slowest = {look.stream, percent};
  }
  if (slowest.percent >= kSlowPercent) return std::nullopt;
  evidence_.clear();
  return slowest;
}

double SlowStreams::judge(const Look& own, std::span<const Look> streams) {
  constexpr double kNotSlow = 100;
  if (own.stream >= evidence_.size()) evidence_.resize(own.stream + 1);
  Evidence& evidence = evidence_[own.stream];
  if (evidence.session != own.session) evidence = {.session = own.session};
  if (!own.is_judged) return kNotSlow;
  bool is_comparable = false;
  for (const Look& other : streams) {
    if (other.stream == own.stream || !other.is_active) continue;
    is_comparable = true;
    if (other.stream >= evidence.beside.size()) evidence.beside.resize(other.stream + 1);
    Sum& sum = evidence.beside[other.stream];
    ++sum.looks;
    sum.bytes += other.acked_bytes;
  }
  if (!is_comparable) return kNotSlow;
  ++evidence.own.looks;
  evidence.own.bytes += own.acked_bytes;
  const double rate = median_rate(evidence.beside);
  if (evidence.own.looks < kSlowWindowLooks ||
      rate * evidence.own.looks < static_cast<double>(kSlowWindowBytesMin)) {
    return kNotSlow;
  }
  const double percent = 100 * evidence.own.rate() / rate;
  // A stream that carries nothing stalls, which is judged by TCP's timeouts.
  const bool is_slow = evidence.own.bytes > 0 && percent < kSlowPercent;
  const uint32_t slow_windows = is_slow ? evidence.slow_windows + 1 : 0;
  evidence = {.session = own.session, .slow_windows = slow_windows};
  return slow_windows >= kSlowWindows ? percent : kNotSlow;
}

// Of those that had data at some time; of two the faster one.
double SlowStreams::median_rate(const std::vector<Sum>& sums) {
  std::vector<double> rates;
  for (const Sum& sum : sums) {
    if (sum.looks > 0) rates.push_back(sum.rate());
  }
  const auto middle = rates.begin() + static_cast<ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

}  // namespace lyre::nccl_adapter
