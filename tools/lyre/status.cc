#include "tools/lyre/status.h"

#include <iostream>
#include <nlohmann/json.hpp>

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

std::string link_text(const PortSnapshot& port) {
  static constexpr const char* kStates[] = {"", "resetting", "recovering", "away", "draining"};
  if (port.state > 0 && port.state < std::size(kStates)) return kStates[port.state];
  return port.is_link_up ? "up" : "down";
}

std::string speed_text(uint32_t mbps) { return mbps == 0 ? "-" : format_rate(1e6 * mbps); }

/// One row for each port, and one below it for each further address.
TextTable ports_table(const Snapshot& snapshot) {
  TextTable table;
  for (const char* title : {"port", "address", "mac"}) table.add_column(title);
  table.add_column("mtu", TextTable::Align::kRight);
  for (const char* title : {"speed", "a flow"}) table.add_column(title, TextTable::Align::kRight);
  for (const char* title : {"link", "device"}) table.add_column(title);
  for (const PortSnapshot& port : snapshot.ports) {
    const std::string first = port.addresses.empty() ? "-" : address_text(port.addresses[0]);
    table.add_row({port.name, first, format_mac(port.mac), std::to_string(port.mtu_bytes),
                   speed_text(port.speed_mbps), speed_text(port.flow_mbps), link_text(port),
                   port.pci_path.empty() ? port.device : port.device + " " + port.pci_path});
    for (size_t i = 1; i < port.addresses.size(); ++i) {
      table.add_row({"", address_text(port.addresses[i]), "", "", "", "", "", ""});
    }
  }
  return table;
}

TextTable workers_table(const Snapshot& snapshot) {
  TextTable table;
  for (const char* title : {"worker", "sessions", "free slots", "slots", "received", "sent",
                            "retransmitted", "busy turns"}) {
    table.add_column(title, TextTable::Align::kRight);
  }
  for (size_t i = 0; i < snapshot.workers.size(); ++i) {
    const WorkerSnapshot& worker = snapshot.workers[i];
    table.add_row({std::to_string(i), std::to_string(worker.sessions_open),
                   std::to_string(worker.rx_slots_free), std::to_string(worker.rx_slots_total),
                   format_bytes(worker[Counter::tcp_payload_in]),
                   format_bytes(worker[Counter::tcp_payload_out]),
                   format_bytes(worker[Counter::tcp_payload_retransmitted]),
                   share(worker[Counter::busy_polls], worker[Counter::polls])});
  }
  return table;
}

}  // namespace

std::string status_text(const Snapshot& snapshot) {
  std::string out = "lyred " + snapshot.daemon_version + " '" + snapshot.daemon_name + "', pid " +
                    std::to_string(snapshot.pid) + ", up " +
                    format_duration(snapshot.taken_unix_ns - snapshot.started_unix_ns) + "\n";
  out += plural(snapshot.workers.size(), "worker") + " (" + snapshot.idle_policy + "), " +
         (snapshot.has_hugepages ? "hugepages" : "ordinary pages") + ", " +
         plural(snapshot.clients, "client") + " (" + std::to_string(snapshot.clients_total) +
         " since start)\n\n";
  return out + ports_table(snapshot).text() + "\n" + workers_table(snapshot).text();
}

nlohmann::ordered_json status_json(const Snapshot& snapshot) {
  nlohmann::ordered_json out = {
      {"name", snapshot.daemon_name},
      {"version", snapshot.daemon_version},
      {"pid", snapshot.pid},
      {"uptime_seconds",
       static_cast<double>(snapshot.taken_unix_ns - snapshot.started_unix_ns) / 1e9},
      {"idle_policy", snapshot.idle_policy},
      {"hugepages", snapshot.has_hugepages},
      {"clients", snapshot.clients},
      {"clients_total", snapshot.clients_total}};
  out["ports"] = nlohmann::ordered_json::array();
  for (const PortSnapshot& port : snapshot.ports) {
    auto addresses = nlohmann::ordered_json::array();
    for (const channel::PortAddress& own : port.addresses) addresses.push_back(address_text(own));
    out["ports"].push_back({{"name", port.name},
                            {"device", port.device},
                            {"pci_path", port.pci_path},
                            {"addresses", std::move(addresses)},
                            {"mac", format_mac(port.mac)},
                            {"mtu_bytes", port.mtu_bytes},
                            {"speed_mbps", port.speed_mbps},
                            {"flow_mbps", port.flow_mbps},
                            {"link_up", port.is_link_up},
                            {"link", link_text(port)}});
  }
  out["workers"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < snapshot.workers.size(); ++i) {
    const WorkerSnapshot& worker = snapshot.workers[i];
    out["workers"].push_back(
        {{"index", i},
         {"sessions_open", worker.sessions_open},
         {"rx_slots_free", worker.rx_slots_free},
         {"rx_slots_total", worker.rx_slots_total},
         {"tcp_payload_in_bytes", worker[Counter::tcp_payload_in]},
         {"tcp_payload_out_bytes", worker[Counter::tcp_payload_out]},
         {"tcp_payload_retransmitted_bytes", worker[Counter::tcp_payload_retransmitted]}});
  }
  return out;
}

void run_status(const GlobalOptions& globals) {
  const Snapshot snapshot = StatsSegment(globals.socket_or_default()).look();
  if (globals.is_json) {
    std::cout << status_json(snapshot).dump(2) << "\n";
  } else {
    std::cout << status_text(snapshot);
  }
}

}  // namespace lyre::tools
