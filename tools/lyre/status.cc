#include "tools/lyre/status.h"

#include <nlohmann/json.hpp>

#include "stack/base/mac_address.h"
#include "tools/lyre/look.h"
#include "tools/lyre/network.h"
#include "tools/lyre/text_table.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

std::string plural(uint64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string share(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%",
                100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

std::string address_text(const channel::PortAddress& own) {
  return format_address(own.address) + "/" + std::to_string(own.prefix_bits);
}

std::string link_and_path(const PortSnapshot& port) {
  return link_text(port) + (is_on_host_path(port) ? ", host path" : "");
}

/// One row for each port, and one below it for each further address.
TextTable ports_table(const Snapshot& snapshot) {
  TextTable table;
  for (const char* title : {"port", "address", "mac"}) table.add_column(title);
  table.add_column("mtu", TextTable::Align::kRight);
  for (const char* title : {"speed", "a flow"}) table.add_column(title, TextTable::Align::kRight);
  for (const char* title : {"link", "device"}) table.add_column(title);
  for (const PortSnapshot& port : snapshot.ports) {
    const std::string first = port.addresses.empty() ? "-" : address_text(port.addresses[0]);
    table.add_row({port.name, first, mac_text(port.mac), std::to_string(port.mtu_bytes),
                   speed_text(port.speed_mbps), speed_text(port.flow_mbps), link_and_path(port),
                   port.pci_path.empty() ? port.device : port.device + " " + port.pci_path});
    for (size_t i = 1; i < port.addresses.size(); ++i) {
      table.add_row({"", address_text(port.addresses[i]), "", "", "", "", "", ""});
    }
  }
  return table;
}

/// What a counter of payload bytes says: its total, or its rate since an earlier look.
std::string traffic_text(uint64_t bytes, uint64_t before_bytes, int64_t interval_ns) {
  if (interval_ns <= 0) return format_bytes(bytes);
  return format_rate(8 * per_second(before_bytes, bytes, interval_ns));
}

TextTable workers_table(const Snapshot& snapshot, const Snapshot* earlier) {
  TextTable table;
  for (const char* title : {"worker", "sessions", "time-wait", "free slots", "slots", "received",
                            "sent", "retransmitted", "busy turns"}) {
    table.add_column(title, TextTable::Align::kRight);
  }
  const int64_t interval_ns =
      earlier != nullptr ? snapshot.taken_unix_ns - earlier->taken_unix_ns : 0;
  for (uint32_t i = 0; i < snapshot.workers.size(); ++i) {
    const WorkerSnapshot& worker = snapshot.workers[i];
    const WorkerSnapshot before = earlier != nullptr ? earlier->workers[i] : WorkerSnapshot{};
    const auto traffic = [&](Counter counter) {
      return traffic_text(worker[counter], before[counter], interval_ns);
    };
    table.add_row({std::to_string(i), std::to_string(sessions_in_use(worker)),
                   std::to_string(worker.time_waits), std::to_string(worker.rx_slots_free),
                   std::to_string(worker.rx_slots_total), traffic(Counter::tcp_payload_in),
                   traffic(Counter::tcp_payload_out), traffic(Counter::tcp_payload_retransmitted),
                   share(worker[Counter::busy_polls] - before[Counter::busy_polls],
                         worker[Counter::polls] - before[Counter::polls])});
  }
  return table;
}

/// A line for each worker that runs on cores of others.
std::string lost_cores_text(const Snapshot& snapshot) {
  std::string out;
  for (uint32_t i = 0; i < snapshot.workers.size(); ++i) {
    if (!snapshot.workers[i].is_core_lost) continue;
    out += "worker " + std::to_string(i) +
           ": its core was taken from the daemon; the log says which\n";
  }
  return out;
}

nlohmann::ordered_json port_status_json(const PortSnapshot& port) {
  auto addresses = nlohmann::ordered_json::array();
  for (const channel::PortAddress& own : port.addresses) addresses.push_back(address_text(own));
  return {{"name", port.name},
          {"device", port.device},
          {"pci_path", port.pci_path},
          {"addresses", std::move(addresses)},
          {"mac", mac_text(port.mac)},
          {"mtu_bytes", port.mtu_bytes},
          {"speed_bits_per_s", uint64_t{port.speed_mbps} * 1'000'000},
          {"flow_bits_per_s", uint64_t{port.flow_mbps} * 1'000'000},
          {"link_up", port.is_link_up},
          {"link", link_text(port)},
          {"on_host_path", is_on_host_path(port)}};
}

nlohmann::ordered_json worker_status_json(const Snapshot& snapshot, const Snapshot* earlier,
                                          uint32_t index) {
  const WorkerSnapshot& worker = snapshot.workers[index];
  nlohmann::ordered_json out = {
      {"index", index},
      {"sessions_open", sessions_in_use(worker)},
      {"time_waits", worker.time_waits},
      {"rx_slots_free", worker.rx_slots_free},
      {"rx_slots_total", worker.rx_slots_total},
      {"is_core_lost", worker.is_core_lost},
      {"tcp_payload_in_bytes", worker[Counter::tcp_payload_in]},
      {"tcp_payload_out_bytes", worker[Counter::tcp_payload_out]},
      {"tcp_payload_retransmitted_bytes", worker[Counter::tcp_payload_retransmitted]}};
  if (earlier == nullptr) return out;
  const WorkerSnapshot& before = earlier->workers[index];
  const int64_t interval_ns = snapshot.taken_unix_ns - earlier->taken_unix_ns;
  const auto rate = [&](Counter counter) {
    return 8 * per_second(before[counter], worker[counter], interval_ns);
  };
  out["received_bits_per_s"] = rate(Counter::tcp_payload_in);
  out["sent_bits_per_s"] = rate(Counter::tcp_payload_out);
  out["retransmitted_bits_per_s"] = rate(Counter::tcp_payload_retransmitted);
  return out;
}

}  // namespace

std::string status_text(const Snapshot& snapshot, const Snapshot* earlier) {
  std::string out = "lyred " + snapshot.daemon_version + " '" + snapshot.daemon_name + "', pid " +
                    std::to_string(snapshot.pid) + ", up " +
                    format_duration(snapshot.taken_unix_ns - snapshot.started_unix_ns) + "\n";
  out += plural(snapshot.workers.size(), "worker") + " (" + snapshot.idle_policy + "), " +
         (snapshot.has_hugepages ? "hugepages" : "ordinary pages") + ", " +
         plural(snapshot.clients, "client") + " (" + std::to_string(snapshot.clients_total) +
         " since start)\n\n";
  return out + ports_table(snapshot).text() + "\n" +
         (snapshot.is_domain ? std::string("workers: ") + kNotShown
                             : workers_table(snapshot, earlier).text() + lost_cores_text(snapshot));
}

nlohmann::ordered_json status_json(const Snapshot& snapshot, const Snapshot* earlier) {
  nlohmann::ordered_json out = {{"name", snapshot.daemon_name},
                                {"version", snapshot.daemon_version},
                                {"pid", snapshot.pid},
                                {"started_unix_ns", snapshot.started_unix_ns},
                                {"uptime_ns", snapshot.taken_unix_ns - snapshot.started_unix_ns},
                                {"idle_policy", snapshot.idle_policy},
                                {"hugepages", snapshot.has_hugepages},
                                {"clients", snapshot.clients},
                                {"clients_total", snapshot.clients_total}};
  out["ports"] = nlohmann::ordered_json::array();
  for (const PortSnapshot& port : snapshot.ports) out["ports"].push_back(port_status_json(port));
  out["workers"] = nlohmann::ordered_json::array();
  for (uint32_t i = 0; !snapshot.is_domain && i < snapshot.workers.size(); ++i) {
    out["workers"].push_back(worker_status_json(snapshot, earlier, i));
  }
  return out;
}

void run_status(const GlobalOptions& globals, std::optional<double> watch_s) {
  show(globals, watch_s, {.text = status_text, .json = status_json});
}

}  // namespace lyre::tools
