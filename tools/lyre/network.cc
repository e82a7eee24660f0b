#include "tools/lyre/network.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "stack/base/mac_address.h"
#include "tools/lyre/look.h"
#include "tools/lyre/text_table.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

constexpr uint8_t kReachable = 2;
constexpr uint8_t kStale = 3;
constexpr std::array<const char*, 7> kNeighbourStates = {
    "unasked", "incomplete", "reachable", "stale", "delay", "probe", "unreachable"};

int64_t interval_of(const Snapshot& now, const Snapshot* earlier) {
  return earlier != nullptr ? now.taken_unix_ns - earlier->taken_unix_ns : 0;
}

/// "12345", or "1.23 M" a second for a rate.
std::string packets_text(uint64_t packets, uint64_t before, int64_t interval_ns) {
  if (interval_ns <= 0) return std::to_string(packets);
  char text[32];
  std::snprintf(text, sizeof text, "%.0f/s", per_second(before, packets, interval_ns));
  return text;
}

std::string bytes_text(uint64_t bytes, uint64_t before, int64_t interval_ns) {
  if (interval_ns <= 0) return format_bytes(bytes);
  return format_rate(8 * per_second(before, bytes, interval_ns));
}

bool is_unspecified(const uint8_t (&address)[16]) {
  return std::all_of(std::begin(address), std::end(address),
                     [](uint8_t byte) { return byte == 0; });
}

bool is_ipv4(const uint8_t (&address)[16]) {
  static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(address, kMapped, sizeof kMapped) == 0;
}

/// The prefix as it is written: an IPv4 one has 96 bits less than its row says.
std::string prefix_text(const channel::RouteView& route) {
  uint8_t network[16];
  for (size_t i = 0; i < sizeof network; ++i) {
    const size_t bits = std::clamp<size_t>(route.prefix_bits, 8 * i, 8 * i + 8) - 8 * i;
    network[i] = static_cast<uint8_t>(route.prefix[i] & ~(0xffu >> bits));
  }
  const uint32_t bits = is_ipv4(route.prefix) && route.prefix_bits >= 96 ? route.prefix_bits - 96u
                                                                         : route.prefix_bits;
  if (bits == 0) return is_ipv4(route.prefix) ? "0.0.0.0/0" : "::/0";
  return format_address(network) + "/" + std::to_string(bits);
}

std::string port_name(const Snapshot& snapshot, uint8_t port) {
  return port < snapshot.ports.size() ? snapshot.ports[port].name : "?";
}

/// A worker that has nothing to do does not look at its neighbours, so time decides.
const char* state_of(const Snapshot& snapshot, const channel::NeighbourView& view) {
  const bool is_over =
      view.state == kReachable && view.reachable_until_unix_ns < snapshot.taken_unix_ns;
  const size_t state = is_over ? kStale : view.state;
  return state < kNeighbourStates.size() ? kNeighbourStates[state] : "?";
}

std::string known_mac(const channel::NeighbourView& view) {
  const bool is_known =
      std::any_of(std::begin(view.mac), std::end(view.mac), [](uint8_t byte) { return byte != 0; });
  return is_known ? mac_text(view.mac) : "-";
}

const char* origin_of(const channel::RouteView& route) {
  if (route.is_learned != 0) return "router advertisement";
  return is_unspecified(route.gateway) ? "connected" : "configured";
}

/// Rows move while a worker writes them, so one neighbour can be in two of them.
std::vector<channel::NeighbourView> sorted_neighbours(const Snapshot& snapshot) {
  const auto key = [](const channel::NeighbourView& view) {
    return std::tuple(view.port, std::to_array(view.address), view.worker);
  };
  std::vector<channel::NeighbourView> out = snapshot.neighbours;
  std::sort(out.begin(), out.end(),
            [&key](const auto& a, const auto& b) { return key(a) < key(b); });
  out.erase(std::unique(out.begin(), out.end(),
                        [&key](const auto& a, const auto& b) { return key(a) == key(b); }),
            out.end());
  return out;
}

nlohmann::ordered_json counters_json(const QueueSnapshot& queue) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (size_t i = 0; i < kQueueCounterCount; ++i) out[kQueueCounters[i].key] = queue.counters[i];
  return out;
}

nlohmann::ordered_json port_traffic_json(const PortSnapshot& port, const PortSnapshot* before,
                                         int64_t interval_ns) {
  const QueueSnapshot sum = sum_of_queues(port);
  nlohmann::ordered_json out = {{"name", port.name},
                                {"link", link_text(port)},
                                {"speed_bits_per_s", uint64_t{port.speed_mbps} * 1'000'000},
                                {"device_rx_missed", port.rx_missed},
                                {"counters", counters_json(sum)}};
  if (before != nullptr) {
    const QueueSnapshot then = sum_of_queues(*before);
    const auto growth = [&](QueueCounter counter) {
      return per_second(then[counter], sum[counter], interval_ns);
    };
    out["received_bits_per_s"] = 8 * growth(QueueCounter::rx_bytes);
    out["sent_bits_per_s"] = 8 * growth(QueueCounter::tx_bytes);
    out["received_packets_per_second"] = growth(QueueCounter::rx_packets);
    out["sent_packets_per_second"] = growth(QueueCounter::tx_packets);
  }
  out["workers"] = nlohmann::ordered_json::array();
  for (const QueueSnapshot& queue : port.queues) out["workers"].push_back(counters_json(queue));
  out["device"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : port.device_counters) out["device"][name] = value;
  return out;
}

}  // namespace

std::string link_text(const PortSnapshot& port) {
  static constexpr const char* kStates[] = {"", "resetting", "recovering", "away", "draining"};
  if (port.state > 0 && port.state < std::size(kStates)) return kStates[port.state];
  return port.is_link_up ? "up" : "down";
}

bool is_on_host_path(const PortSnapshot& port) {
  return std::ranges::any_of(port.device_counters,
                             [](const auto& counter) { return counter.first == "on_host_path"; });
}

std::string speed_text(uint32_t mbps) { return mbps == 0 ? "-" : format_rate(1e6 * mbps); }

std::string ports_text(const Snapshot& snapshot, const Snapshot* earlier) {
  if (snapshot.is_domain) return kNotShown;
  using Align = TextTable::Align;
  const int64_t interval_ns = interval_of(snapshot, earlier);
  TextTable table;
  for (const char* title : {"port", "link"}) table.add_column(title);
  for (const char* title :
       {"speed", "received", "packets", "sent", "packets", "missed", "port full", "not sent"}) {
    table.add_column(title, Align::kRight);
  }
  for (size_t i = 0; i < snapshot.ports.size(); ++i) {
    const PortSnapshot& port = snapshot.ports[i];
    const QueueSnapshot sum = sum_of_queues(port);
    const QueueSnapshot before =
        earlier != nullptr ? sum_of_queues(earlier->ports[i]) : QueueSnapshot{};
    const auto bytes = [&](QueueCounter counter) {
      return bytes_text(sum[counter], before[counter], interval_ns);
    };
    const auto packets = [&](QueueCounter counter) {
      return packets_text(sum[counter], before[counter], interval_ns);
    };
    table.add_row({port.name, link_text(port), speed_text(port.speed_mbps),
                   bytes(QueueCounter::rx_bytes), packets(QueueCounter::rx_packets),
                   bytes(QueueCounter::tx_bytes), packets(QueueCounter::tx_packets),
                   std::to_string(missed_of(port)), std::to_string(sum[QueueCounter::tx_full]),
                   std::to_string(sum[QueueCounter::tx_dropped])});
  }
  return table.text();
}

nlohmann::ordered_json ports_json(const Snapshot& snapshot, const Snapshot* earlier) {
  nlohmann::ordered_json out = {{"ports", nlohmann::ordered_json::array()}};
  if (snapshot.is_domain) return out;
  for (size_t i = 0; i < snapshot.ports.size(); ++i) {
    out["ports"].push_back(port_traffic_json(snapshot.ports[i],
                                             earlier != nullptr ? &earlier->ports[i] : nullptr,
                                             interval_of(snapshot, earlier)));
  }
  return out;
}

std::string neighbours_text(const Snapshot& snapshot) {
  if (snapshot.is_domain) return kNotShown;
  TextTable table;
  for (const char* title : {"address", "port", "mac", "state"}) table.add_column(title);
  for (const char* title : {"worker", "sessions"}) {
    table.add_column(title, TextTable::Align::kRight);
  }
  for (const channel::NeighbourView& view : sorted_neighbours(snapshot)) {
    table.add_row({format_address(view.address), port_name(snapshot, view.port), known_mac(view),
                   state_of(snapshot, view), std::to_string(view.worker),
                   std::to_string(view.sessions)});
  }
  return table.is_empty() ? "no neighbours\n" : table.text();
}

nlohmann::ordered_json neighbours_json(const Snapshot& snapshot) {
  nlohmann::ordered_json out = {{"neighbours", nlohmann::ordered_json::array()}};
  for (const channel::NeighbourView& view : sorted_neighbours(snapshot)) {
    const std::string mac = known_mac(view);
    out["neighbours"].push_back(
        {{"address", format_address(view.address)},
         {"port", port_name(snapshot, view.port)},
         {"mac", mac == "-" ? nlohmann::ordered_json() : nlohmann::ordered_json(mac)},
         {"state", state_of(snapshot, view)},
         {"worker", view.worker},
         {"sessions", view.sessions}});
  }
  return out;
}

std::string routes_text(const Snapshot& snapshot) {
  if (snapshot.is_domain) return kNotShown;
  TextTable table;
  for (const char* title : {"destination", "gateway", "port", "source", "origin"}) {
    table.add_column(title);
  }
  for (const channel::RouteView& route : snapshot.routes) {
    table.add_row(
        {prefix_text(route), is_unspecified(route.gateway) ? "-" : format_address(route.gateway),
         port_name(snapshot, route.port),
         is_unspecified(route.source) ? "-" : format_address(route.source), origin_of(route)});
  }
  return table.is_empty() ? "no routes\n" : table.text();
}

nlohmann::ordered_json routes_json(const Snapshot& snapshot) {
  nlohmann::ordered_json out = {{"routes", nlohmann::ordered_json::array()}};
  for (const channel::RouteView& route : snapshot.routes) {
    nlohmann::ordered_json shown = {{"destination", prefix_text(route)},
                                    {"port", port_name(snapshot, route.port)},
                                    {"origin", origin_of(route)}};
    if (!is_unspecified(route.gateway)) shown["gateway"] = format_address(route.gateway);
    if (!is_unspecified(route.source)) shown["source"] = format_address(route.source);
    out["routes"].push_back(std::move(shown));
  }
  return out;
}

void run_ports(const GlobalOptions& globals, std::optional<double> watch_s) {
  show(globals, watch_s, {.text = ports_text, .json = ports_json});
}

void run_neighbours(const GlobalOptions& globals, std::optional<double> watch_s) {
  show(globals, watch_s,
       {.text = [](const Snapshot& now, const Snapshot*) { return neighbours_text(now); },
        .json = [](const Snapshot& now, const Snapshot*) { return neighbours_json(now); }});
}

void run_routes(const GlobalOptions& globals, std::optional<double> watch_s) {
  show(globals, watch_s,
       {.text = [](const Snapshot& now, const Snapshot*) { return routes_text(now); },
        .json = [](const Snapshot& now, const Snapshot*) { return routes_json(now); }});
}

}  // namespace lyre::tools
