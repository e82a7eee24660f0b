#include "stack/worker/network_stats.h"

#include <algorithm>
#include <cstring>

#include "stack/worker/port.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

bool NetworkStats::write_some_neighbours() {
  const auto rows = state_.stats.neighbours;
  for (size_t i = 0; i < kNeighboursShownPerPollMax; ++i) {
    if (port_ >= state_.ports.size() || row_ >= rows.size()) {
      // Rows of the pass before that this one did not need.
      if (rows_written_ > row_) {
        rows[--rows_written_].write(nullptr);
        continue;
      }
      rows_written_ = row_;
      port_ = 0;
      index_ = row_ = 0;
      return true;
    }
    const link::NeighbourTable& table = state_.neighbours.cache().table(port_);
    if (index_ >= table.bound()) {
      ++port_;
      index_ = 0;
    } else if (const link::Neighbour* shown = table.at(index_++); shown != nullptr) {
      write_neighbour(port_, *shown);
    }
  }
  return false;
}

void NetworkStats::write_neighbour(uint8_t port, const link::Neighbour& shown) {
  channel::NeighbourView view{};
  std::memcpy(view.address, shown.ip.bytes.data(), sizeof view.address);
  if (shown.has_mac()) std::memcpy(view.mac, shown.mac.bytes.data(), sizeof view.mac);
  view.port = port;
  view.state = static_cast<uint8_t>(shown.state);
  view.worker = state_.config.index;
  view.sessions = shown.holders;
  if (shown.state == link::Neighbour::State::kReachable) {
    view.reachable_until_unix_ns = shown.deadline.value + state_.config.unix_offset_ns;
  }
  state_.stats.neighbours[row_++].write(&view);
}

io::IoCounters NetworkStats::write_queues() {
  io::IoCounters sum;
  for (size_t i = 0; i < state_.ports.size(); ++i) {
    const io::IoCounters counters = state_.ports[i].counters();
#define LYRE_X(name, text)   \
  sum.name += counters.name; \
  if (i < state_.stats.queues.size()) state_.stats.queues[i].name.set(counters.name);
    LYRE_QUEUE_COUNTERS(LYRE_X)
#undef LYRE_X
  }
  return sum;
}

void NetworkStats::write_routes() {
  const ip::RouteTable& table = state_.routes;
  if (table.generation() == routes_seen_) return;
  routes_seen_ = table.generation();
  const auto routes = table.routes();
  for (size_t i = 0; i < state_.stats.routes.size(); ++i) {
    if (i >= routes.size()) {
      state_.stats.routes[i].write(nullptr);
      continue;
    }
    channel::RouteView view{};
    std::memcpy(view.prefix, routes[i].prefix.address.bytes.data(), sizeof view.prefix);
    std::memcpy(view.gateway, routes[i].gateway.bytes.data(), sizeof view.gateway);
    std::memcpy(view.source, routes[i].source.bytes.data(), sizeof view.source);
    view.prefix_bits = routes[i].prefix.bits;
    view.port = routes[i].port;
    view.is_learned = routes[i].is_learned ? 1 : 0;
    state_.stats.routes[i].write(&view);
  }
}

}  // namespace lyre::worker
