#include "tools/lyre/stats.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/lyre/look.h"
#include "tools/lyre/text_table.h"

namespace lyre::tools {
namespace {

std::string growth_text(double per_second) {
  char text[32];
  std::snprintf(text, sizeof text, per_second > 0 && per_second < 10 ? "%.1f" : "%.0f", per_second);
  return text;
}

/// Counters of workers, a line each.
class CounterTable {
 public:
  CounterTable(const Snapshot& now, const Snapshot* earlier, const StatsOptions& options,
               const char* title)
      : now_(now), earlier_(earlier), options_(options) {
    table_.add_column(title);
    for (size_t i = 0; has_workers() && i < now.workers.size(); ++i) {
      table_.add_column("worker " + std::to_string(i), TextTable::Align::kRight);
    }
    table_.add_column("total", TextTable::Align::kRight);
    if (earlier != nullptr) table_.add_column("a second", TextTable::Align::kRight);
    if (has_largest()) {
      for (const char* largest : {"largest", "worker"}) {
        table_.add_column(largest, TextTable::Align::kRight);
      }
    }
    table_.add_column("");
  }

  /// `value_of` returns the counter's value at a worker.
  template <typename ValueOf>
  void add(const char* key, const char* text, ValueOf value_of) {
    std::vector<std::string> cells = {key};
    for (size_t i = 0; has_workers() && i < now_.workers.size(); ++i) {
      cells.push_back(std::to_string(value_of(now_.workers[i])));
    }
    const uint64_t total = sum_of(now_, value_of);
    if (total == 0 && !options_.has_zeros) return;
    cells.push_back(std::to_string(total));
    if (earlier_ != nullptr) {
      const int64_t interval_ns = now_.taken_unix_ns - earlier_->taken_unix_ns;
      cells.push_back(growth_text(per_second(sum_of(*earlier_, value_of), total, interval_ns)));
    }
    if (has_largest()) {
      const auto largest = std::ranges::max_element(now_.workers, {}, value_of);
      cells.push_back(std::to_string(value_of(*largest)));
      cells.push_back(total > 0 ? std::to_string(largest - now_.workers.begin()) : "-");
    }
    cells.emplace_back(text);
    table_.add_row(std::move(cells));
  }

  bool is_empty() const { return table_.is_empty(); }
  std::string text() const { return has_largest() ? table_.text(kStatsColumns) : table_.text(); }

 private:
  bool has_largest() const {
    return now_.workers.size() > kWorkerColumnsMax && !options_.has_workers;
  }
  bool has_workers() const { return now_.workers.size() > 1 && !has_largest(); }

  template <typename ValueOf>
  static uint64_t sum_of(const Snapshot& snapshot, ValueOf value_of) {
    uint64_t total = 0;
    for (const WorkerSnapshot& worker : snapshot.workers) total += value_of(worker);
    return total;
  }

  const Snapshot& now_;
  const Snapshot* earlier_;
  const StatsOptions& options_;
  TextTable table_;
};

/// Counters of the devices, which are not divided by worker.
TextTable ports_table(const Snapshot& snapshot, bool has_zeros) {
  TextTable ports;
  ports.add_column("port");
  ports.add_column("rx_missed", TextTable::Align::kRight);
  ports.add_column("");
  for (const PortSnapshot& port : snapshot.ports) {
    if (port.rx_missed == 0 && !has_zeros) continue;
    ports.add_row({port.name, std::to_string(port.rx_missed),
                   "packets that the device lost because it had no free buffer"});
  }
  return ports;
}

/// Whether a port lost packets, which no drop reason counts.
bool has_port_lost(const Snapshot& snapshot) {
  return std::ranges::any_of(snapshot.ports,
                             [](const PortSnapshot& port) { return port.rx_missed > 0; }) ||
         std::ranges::any_of(snapshot.workers, [](const WorkerSnapshot& worker) {
           return worker[Counter::rx_missed] > 0 || worker[Counter::tx_dropped] > 0;
         });
}

std::string drops_text(const CounterTable& drops, const Snapshot& snapshot) {
  if (!drops.is_empty()) return "\n" + drops.text();
  return has_port_lost(snapshot) ? "" : "\nnothing was dropped\n";
}

/// What only the driver counts, in its words. A cloud's limits are here: ENA's "allowance
/// exceeded".
TextTable devices_table(const Snapshot& snapshot) {
  TextTable devices;
  devices.add_column("port");
  devices.add_column("counter of its driver");
  devices.add_column("total", TextTable::Align::kRight);
  for (const PortSnapshot& port : snapshot.ports) {
    for (const auto& [name, value] : port.device_counters) {
      devices.add_row({port.name, name, std::to_string(value)});
    }
  }
  return devices;
}

/// "per_second" has the growth of the same counters since `before`.
nlohmann::ordered_json worker_stats_json(const WorkerSnapshot& worker, const WorkerSnapshot* before,
                                         int64_t interval_ns) {
  nlohmann::ordered_json counters = nlohmann::ordered_json::object();
  nlohmann::ordered_json drops = nlohmann::ordered_json::object();
  nlohmann::ordered_json growth = nlohmann::ordered_json::object();
  for (size_t i = 0; i < kWorkerCounterCount; ++i) {
    const char* key = kWorkerCounters[i].key;
    counters[key] = worker.counters[i];
    if (before == nullptr) continue;
    growth["counters"][key] = per_second(before->counters[i], worker.counters[i], interval_ns);
  }
  for (size_t i = 0; i < kDropCount; ++i) {
    const char* key = kDropTexts[i].key;
    drops[key] = worker.drops[i];
    if (before == nullptr) continue;
    growth["drops"][key] = per_second(before->drops[i], worker.drops[i], interval_ns);
  }
  nlohmann::ordered_json out = {{"counters", counters},
                                {"drops", drops},
                                {"sessions_open", sessions_in_use(worker)},
                                {"time_waits", worker.time_waits},
                                {"rx_slots_free", worker.rx_slots_free},
                                {"rx_slots_total", worker.rx_slots_total}};
  if (before != nullptr) out["per_second"] = std::move(growth);
  return out;
}

}  // namespace

std::string stats_text(const Snapshot& snapshot, const Snapshot* earlier,
                       const StatsOptions& options) {
  if (snapshot.is_domain) return kNotShown;
  CounterTable counters(snapshot, earlier, options, "counter");
  for (size_t i = 0; i < kWorkerCounterCount; ++i) {
    counters.add(kWorkerCounters[i].key, kWorkerCounters[i].text,
                 [i](const WorkerSnapshot& worker) { return worker.counters[i]; });
  }
  CounterTable drops(snapshot, earlier, options, "dropped");
  for (size_t i = 0; i < kDropCount; ++i) {
    drops.add(kDropTexts[i].key, kDropTexts[i].text,
              [i](const WorkerSnapshot& worker) { return worker.drops[i]; });
  }
  const TextTable ports = ports_table(snapshot, options.has_zeros);
  const TextTable devices = devices_table(snapshot);
  return counters.text() + drops_text(drops, snapshot) +
         (ports.is_empty() ? "" : "\n" + ports.text()) +
         (devices.is_empty() ? "" : "\n" + devices.text());
}

nlohmann::ordered_json stats_json(const Snapshot& snapshot, const Snapshot* earlier) {
  nlohmann::ordered_json out;
  out["workers"] = nlohmann::ordered_json::array();
  out["ports"] = nlohmann::ordered_json::array();
  if (snapshot.is_domain) return out;
  for (size_t i = 0; i < snapshot.workers.size(); ++i) {
    const WorkerSnapshot* before = earlier != nullptr ? &earlier->workers[i] : nullptr;
    out["workers"].push_back(worker_stats_json(
        snapshot.workers[i], before,
        earlier != nullptr ? snapshot.taken_unix_ns - earlier->taken_unix_ns : 0));
  }
  for (const PortSnapshot& port : snapshot.ports) {
    nlohmann::ordered_json device = nlohmann::ordered_json::object();
    for (const auto& [name, value] : port.device_counters) device[name] = value;
    out["ports"].push_back(
        {{"name", port.name}, {"rx_missed", port.rx_missed}, {"device", std::move(device)}});
  }
  return out;
}

void run_stats(const GlobalOptions& globals, const StatsOptions& options,
               std::optional<double> watch_s) {
  show(globals, watch_s,
       {.text = [options](const Snapshot& now,
                          const Snapshot* earlier) { return stats_text(now, earlier, options); },
        .json = stats_json});
}

}  // namespace lyre::tools
