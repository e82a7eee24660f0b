#include "tools/lyre/stats.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/lyre/text_table.h"

namespace lyre::tools {
namespace {

TextTable make_table(const Snapshot& snapshot, const char* title) {
  TextTable table;
  table.add_column(title);
  if (snapshot.workers.size() > 1) {
    for (size_t i = 0; i < snapshot.workers.size(); ++i) {
      table.add_column("worker " + std::to_string(i), TextTable::Align::kRight);
    }
  }
  table.add_column("total", TextTable::Align::kRight);
  table.add_column("");
  return table;
}

/// Adds one counter; `value_of` returns its value at a worker.
template <typename ValueOf>
void add_line(TextTable& table, const Snapshot& snapshot, bool has_zeros, const char* key,
              const char* text, ValueOf value_of) {
  std::vector<std::string> cells = {key};
  uint64_t total = 0;
  for (const WorkerSnapshot& worker : snapshot.workers) {
    total += value_of(worker);
    if (snapshot.workers.size() > 1) cells.push_back(std::to_string(value_of(worker)));
  }
  if (total == 0 && !has_zeros) return;
  cells.push_back(std::to_string(total));
  cells.emplace_back(text);
  table.add_row(std::move(cells));
}

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

}  // namespace

std::string stats_text(const Snapshot& snapshot, bool has_zeros) {
  TextTable counters = make_table(snapshot, "counter");
  for (size_t i = 0; i < kWorkerCounterCount; ++i) {
    add_line(counters, snapshot, has_zeros, kWorkerCounters[i].key, kWorkerCounters[i].text,
             [i](const WorkerSnapshot& worker) { return worker.counters[i]; });
  }
  TextTable drops = make_table(snapshot, "dropped");
  for (size_t i = 0; i < kDropCount; ++i) {
    add_line(drops, snapshot, has_zeros, kDropTexts[i].key, kDropTexts[i].text,
             [i](const WorkerSnapshot& worker) { return worker.drops[i]; });
  }
  const std::string dropped = drops.is_empty() ? "nothing was dropped\n" : drops.text();
  const TextTable ports = ports_table(snapshot, has_zeros);
  const TextTable devices = devices_table(snapshot);
  return counters.text() + "\n" + dropped + (ports.is_empty() ? "" : "\n" + ports.text()) +
         (devices.is_empty() ? "" : "\n" + devices.text());
}

nlohmann::ordered_json stats_json(const Snapshot& snapshot) {
  nlohmann::ordered_json out;
  out["workers"] = nlohmann::ordered_json::array();
  for (const WorkerSnapshot& worker : snapshot.workers) {
    nlohmann::ordered_json counters = nlohmann::ordered_json::object();
    nlohmann::ordered_json drops = nlohmann::ordered_json::object();
    for (size_t i = 0; i < kWorkerCounterCount; ++i) {
      counters[kWorkerCounters[i].key] = worker.counters[i];
    }
    for (size_t i = 0; i < kDropCount; ++i) drops[kDropTexts[i].key] = worker.drops[i];
    out["workers"].push_back({{"counters", counters},
                              {"drops", drops},
                              {"sessions_open", worker.sessions_open},
                              {"rx_slots_free", worker.rx_slots_free},
                              {"rx_slots_total", worker.rx_slots_total}});
  }
  out["ports"] = nlohmann::ordered_json::array();
  for (const PortSnapshot& port : snapshot.ports) {
    nlohmann::ordered_json device = nlohmann::ordered_json::object();
    for (const auto& [name, value] : port.device_counters) device[name] = value;
    out["ports"].push_back(
        {{"name", port.name}, {"rx_missed", port.rx_missed}, {"device", std::move(device)}});
  }
  return out;
}

void run_stats(const GlobalOptions& globals, bool has_zeros) {
  const Snapshot snapshot = StatsSegment(globals.socket_or_default()).look();
  if (globals.is_json) {
    std::cout << stats_json(snapshot).dump(2) << "\n";
  } else {
    std::cout << stats_text(snapshot, has_zeros);
  }
}

}  // namespace lyre::tools
