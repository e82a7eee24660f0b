#pragma once

#include <prometheus/metric_family.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/lyre/printable.h"

namespace lyre::tools {

using Labels = std::vector<prometheus::ClientMetric::Label>;

/// Names come from clients and peers and may be any bytes; Prometheus takes UTF-8 only.
template <size_t kBytes>
std::string label_text(const char (&text)[kBytes]) {
  return printable(std::string(text, ::strnlen(text, kBytes)));
}

/// Families in the order in which they were first named. Thread: one.
class FamilyList {
 public:
  void counter(const std::string& name, const std::string& help, Labels labels, double value) {
    metric(name, help, prometheus::MetricType::Counter, std::move(labels)).counter.value = value;
  }
  void gauge(const std::string& name, const std::string& help, Labels labels, double value) {
    metric(name, help, prometheus::MetricType::Gauge, std::move(labels)).gauge.value = value;
  }
  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  prometheus::ClientMetric& metric(const std::string& name, const std::string& help,
                                   prometheus::MetricType type, Labels labels) {
    const auto [at, is_new] = places_.emplace(name, families_.size());
    if (is_new) families_.push_back({name, help, type, {}});
    auto& metrics = families_[at->second].metric;
    metrics.emplace_back();
    metrics.back().label = std::move(labels);
    return metrics.back();
  }

  std::vector<prometheus::MetricFamily> families_;
  std::map<std::string, size_t> places_;
};

}  // namespace lyre::tools
