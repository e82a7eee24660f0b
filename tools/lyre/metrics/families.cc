#include "tools/lyre/metrics/families.h"

#include <cmath>
#include <string>
#include <utility>

#include "stack/base/mac_address.h"
#include "tools/lyre/metrics/family_list.h"
#include "tools/lyre/network.h"
#include "tools/lyre/printable.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

using prometheus::MetricFamily;

/// "tcp_payload_in" counts bytes, which its name must say here.
std::string worker_metric(const std::string& key) {
  const bool lacks_unit = key.starts_with("tcp_payload_");
  return "lyre_worker_" + key + (lacks_unit ? "_bytes" : "") + "_total";
}

/// When the daemon started, by the wall clock of now: it may have been stepped since then. Steps of
/// less than a second are left out, and others are whole seconds: a value that followed the
/// clocks' readings would be another one at each scrape.
double started_s(const Snapshot& daemon) {
  const auto step_s = static_cast<double>(daemon.clock_step_ns) / 1e9;
  return static_cast<double>(daemon.started_unix_ns) / 1e9 +
         (std::abs(step_s) < 1 ? 0 : std::round(step_s));
}

/// By the wall clock of the start. It is the same in all scrapes of a process, because each change
/// of it counts as a start.
double cold_started_s(const Snapshot& daemon) {
  return static_cast<double>(daemon.started_unix_ns) / 1e9;
}

void add_daemon(FamilyList& out, const Snapshot& daemon) {
  out.gauge("lyre_daemon_info", "The daemon; the value is 1",
            {{"name", printable(daemon.daemon_name)},
             {"version", printable(daemon.daemon_version)},
             {"idle_policy", printable(daemon.idle_policy)}},
            1);
  out.gauge("lyre_daemon_start_time_seconds", "When the daemon started, since 1970", {},
            started_s(daemon));
  out.gauge(
      "lyre_daemon_cold_start_time_seconds",
      "When the daemon started, since 1970, by the wall clock of that time, which may have been "
      "stepped since then; 0: it took the place of another process in an upgrade",
      {}, daemon.is_successor ? 0 : cold_started_s(daemon));
  out.gauge("lyre_scope_is_domain",
            "1 where the socket is that of one of several domains: it shows no counters of workers "
            "and ports",
            {}, daemon.is_domain ? 1 : 0);
  out.gauge("lyre_clients", "Clients that are attached", {}, static_cast<double>(daemon.clients));
  out.counter("lyre_clients_attached_total", "Clients that attached since the daemon started", {},
              static_cast<double>(daemon.clients_total));
}

void add_workers(FamilyList& out, const Snapshot& daemon) {
  for (uint32_t i = 0; i < daemon.workers.size(); ++i) {
    const WorkerSnapshot& worker = daemon.workers[i];
    const Labels labels = {{"worker", std::to_string(i)}};
    for (size_t at = 0; at < kWorkerCounterCount; ++at) {
      out.counter(worker_metric(kWorkerCounters[at].key), kWorkerCounters[at].text, labels,
                  static_cast<double>(worker.counters[at]));
    }
    for (size_t at = 0; at < kDropCount; ++at) {
      Labels reason = labels;
      reason.push_back({"reason", kDropTexts[at].key});
      out.counter("lyre_worker_dropped_packets_total", "Packets refused, by reason",
                  std::move(reason), static_cast<double>(worker.drops[at]));
    }
    out.gauge("lyre_worker_connections", "Connections, with those in TIME-WAIT", labels,
              static_cast<double>(worker.sessions_open));
    out.gauge("lyre_worker_time_waits", "Connections that only wait for stray packets", labels,
              static_cast<double>(worker.time_waits));
    out.gauge("lyre_worker_rx_slots", "Packet buffers for reception", labels,
              static_cast<double>(worker.rx_slots_total));
    out.gauge("lyre_worker_rx_slots_free", "Free packet buffers for reception", labels,
              static_cast<double>(worker.rx_slots_free));
    out.gauge("lyre_worker_core_lost", "1: the daemon may not use the worker's core any more",
              labels, worker.is_core_lost ? 1 : 0);
  }
}

/// What a domain's segment shows, too.
void add_port(FamilyList& out, const PortSnapshot& port) {
  const Labels labels = {{"port", printable(port.name)}};
  out.gauge("lyre_port_info", "A port; the value is 1",
            {{"port", printable(port.name)},
             {"device", printable(port.device)},
             {"mac", mac_text(port.mac)}},
            1);
  out.gauge("lyre_port_up", "1 while the link is up and the device runs", labels,
            link_text(port) == "up" ? 1 : 0);
  out.gauge("lyre_port_speed_bytes", "Speed of the link in bytes a second; 0: unknown", labels,
            125e3 * port.speed_mbps);
  out.gauge("lyre_port_mtu_bytes", "MTU", labels, port.mtu_bytes);
}

void add_port_counters(FamilyList& out, const PortSnapshot& port) {
  const Labels labels = {{"port", printable(port.name)}};
  out.counter("lyre_port_device_rx_missed_total",
              "Packets that the device lost because it had no free buffer", labels,
              static_cast<double>(port.rx_missed));
  for (size_t worker = 0; worker < port.queues.size(); ++worker) {
    Labels queue = labels;
    queue.push_back({"worker", std::to_string(worker)});
    for (size_t at = 0; at < kQueueCounterCount; ++at) {
      out.counter("lyre_port_" + std::string(kQueueCounters[at].key) + "_total",
                  kQueueCounters[at].text, queue,
                  static_cast<double>(port.queues[worker].counters[at]));
    }
  }
  for (const auto& [name, value] : port.device_counters) {
    Labels event = labels;
    event.push_back({"event", printable(name)});
    out.counter("lyre_port_driver_events_total", "What the driver counts, by its names",
                std::move(event), static_cast<double>(value));
  }
}

void add_clients(FamilyList& out, const ClientGroups& clients) {
  for (const auto& [place, group] : clients.groups()) {
    const Labels labels = {{"uid", place.uid}, {"client", place.name}};
    out.gauge("lyre_client_sessions",
              "Sessions of a user's clients of one label. Labels over a limit are added up as "
              "\"other\"",
              labels, static_cast<double>(group.sessions));
    out.gauge("lyre_client_unfinished_sends", "Their sends that are not acknowledged", labels,
              static_cast<double>(group.unfinished_sends));
    out.gauge("lyre_client_rx_slots_held", "Packet buffers with bytes of theirs", labels,
              static_cast<double>(group.slots_held));
    out.gauge("lyre_client_rx_slots_lent", "Those of them that are lent", labels,
              static_cast<double>(group.slots_lent));
    out.gauge("lyre_client_rx_slots_limit_ratio",
              "The largest part of its limit of packet buffers that one of them holds at a worker",
              labels, group.limit_ratio);
  }
}

}  // namespace

std::vector<MetricFamily> metrics_of(const Snapshot* daemon, const ClientGroups& clients) {
  FamilyList out;
  out.gauge("lyre_up", "1 while the daemon answers", {}, daemon != nullptr ? 1 : 0);
  if (daemon == nullptr) return out.take();
  add_daemon(out, *daemon);
  for (const PortSnapshot& port : daemon->ports) add_port(out, port);
  // A domain's segment has no counters, and zeros would be wrong.
  if (!daemon->is_domain) {
    add_workers(out, *daemon);
    for (const PortSnapshot& port : daemon->ports) add_port_counters(out, port);
  }
  add_clients(out, clients);
  return out.take();
}

}  // namespace lyre::tools
