#include "tests/sim/adapter/network.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lyre::adapter_sim {
namespace {

lyre_addr make_address(size_t host, size_t rail) {
  lyre_addr out{};
  out.address[10] = out.address[11] = 0xff;
  out.address[12] = 10;
  out.address[13] = static_cast<uint8_t>(rail);
  out.address[15] = static_cast<uint8_t>(host + 1);
  return out;
}

lyre_addr make_ipv6_address(size_t host, size_t rail) {
  lyre_addr out{};
  out.address[0] = 0xfd;
  out.address[7] = static_cast<uint8_t>(rail);
  out.address[15] = static_cast<uint8_t>(host + 1);
  return out;
}

void give_addresses(Host& host, const NetworkSettings& settings) {
  const bool is_named = host.index < settings.families.size();
  const Families families = is_named ? settings.families[host.index] : Families::kIpv4;
  for (size_t r = 0; r < settings.rails; ++r) {
    const lyre_addr ipv6 = make_ipv6_address(host.index, r);
    host.rails.push_back(families == Families::kIpv6 ? ipv6 : make_address(host.index, r));
    if (families == Families::kBoth) host.second_addresses.push_back(ipv6);
  }
}

bool is_ipv6(const lyre_addr& address) { return address.address[0] == 0xfd; }

bool is_same_address(const lyre_addr& a, const lyre_addr& b) {
  return std::memcmp(a.address, b.address, sizeof(a.address)) == 0;
}

Network* g_network = nullptr;

}  // namespace

void set_network(Network* network) { g_network = network; }
Network* network() { return g_network; }

Network::Network(const NetworkSettings& settings, Events& events, uint64_t seed)
    : settings_(settings),
      events_(events),
      rng_(seed),
      wires_(settings, events, rng_),
      tcp_(settings, events, rng_, wires_) {
  for (size_t i = 0; i < settings.hosts; ++i) {
    auto host = std::make_unique<Host>();
    host->index = i;
    give_addresses(*host, settings);
    hosts_.push_back(std::move(host));
  }
}

Network::~Network() = default;

// ---- What breaks ----

void Network::forget_all(Host& host, bool tells) {
  for (const auto& connection : connections_) {
    for (End& end : connection->ends) {
      if (end.host == &host) tcp_.forget(end, tells);
    }
  }
  host.listeners.clear();
  host.daemon = Host::Daemon::kDead;
  for (lyre_context* context : std::exchange(host.contexts, {})) {
    on_daemon_gone(context, tells ? LYRE_E_SHUTDOWN : LYRE_E_DAEMON);
  }
}

void Network::kill_daemon(size_t host) { forget_all(*hosts_[host], false); }
void Network::stop_daemon(size_t host) { forget_all(*hosts_[host], true); }

void Network::start_daemon(size_t host) {
  hosts_[host]->daemon = Host::Daemon::kRunning;
  ++hosts_[host]->boot;
}

void Network::pause_daemon(size_t host) {
  if (hosts_[host]->daemon == Host::Daemon::kRunning) {
    hosts_[host]->daemon = Host::Daemon::kStopped;
  }
}

void Network::resume_daemon(size_t host) {
  if (hosts_[host]->daemon == Host::Daemon::kStopped) {
    hosts_[host]->daemon = Host::Daemon::kRunning;
  }
}

void Network::kill_client(lyre_context* context) {
  for (const auto& host : hosts_) {
    std::erase(host->contexts, context);
    std::erase_if(host->listeners,
                  [&](const auto& entry) { return entry.second.context == context; });
  }
  for (const auto& connection : connections_) {
    for (End& end : connection->ends) {
      if (end.context == context && knows(end)) leave(end);
    }
  }
}

// A daemon closes what a dead client had, unread bytes or not, and drops what is not acknowledged
// after a second.
void Network::leave(End& end) {
  end.readable.clear();
  end.readable_bytes = end.held_bytes = 0;
  tcp_.close(end);
  events_.after(kSecond, [this, own = &end] {
    const bool is_open = knows(*own) && own->state == End::State::kOpen;
    if (is_open && own->acked < own->queued) tcp_.abort(*own);
  });
}

// ---- Connections ----

std::vector<Connection*> Network::established() {
  std::vector<Connection*> found;
  for (const auto& connection : connections_) {
    const bool is_open =
        std::all_of(std::begin(connection->ends), std::end(connection->ends),
                    [&](const End& end) { return knows(end) && end.state == End::State::kOpen; });
    if (is_open && connection->ends[0].host != connection->ends[1].host) {
      found.push_back(connection.get());
    }
  }
  return found;
}

uint64_t Network::open_ends() const {
  uint64_t count = 0;
  for (const auto& connection : connections_) {
    for (const End& end : connection->ends) {
      if (knows(end) && end.state == End::State::kOpen) ++count;
    }
  }
  return count;
}

// ---- The client's side ----

bool Network::find_port(const lyre_addr& address, Place* out) const {
  for (const auto& host : hosts_) {
    for (const auto* addresses : {&host->rails, &host->second_addresses}) {
      for (size_t rail = 0; rail < addresses->size(); ++rail) {
        if (!is_same_address((*addresses)[rail], address)) continue;
        *out = {host->index, rail};
        return true;
      }
    }
  }
  return false;
}

bool Network::may_connect(const lyre_context* context) {
  if (settings_.connects_max == 0 && settings_.host_connects_max == 0) return true;
  size_t of_client = 0;
  size_t of_host = 0;
  for (const auto& connection : connections_) {
    const End& end = connection->ends[0];
    if (!knows(end) || end.state == End::State::kEnded) continue;
    const auto& contexts = end.host->contexts;
    if (end.context == context) ++of_client;
    if (std::find(contexts.begin(), contexts.end(), context) != contexts.end()) ++of_host;
  }
  const auto is_used = [](size_t count, size_t most) { return most != 0 && count >= most; };
  const bool has_room =
      !is_used(of_client, settings_.connects_max) && !is_used(of_host, settings_.host_connects_max);
  if (!has_room) ++refused_connects_;
  return has_room;
}

End* Network::connect(lyre_context* context, const lyre_addr* local, const lyre_addr& remote) {
  Place from;
  Place to;
  if (is_ipv6(*local) != is_ipv6(remote)) return nullptr;
  if (!find_port(*local, &from) || !find_port(remote, &to)) return nullptr;
  connections_.push_back(std::make_unique<Connection>());
  Connection& connection = *connections_.back();
  connection.number = connections_.size();
  if (settings_.fabric_paths > 0) connection.fabric_path = choose_fabric_path();
  for (int side = 0; side < 2; ++side) {
    const Place place = side == 0 ? from : to;
    End& end = connection.ends[side];
    end.connection = &connection;
    end.side = side;
    end.host = hosts_[place.host].get();
    end.rail = place.rail;
  }
  End& own = connection.ends[0];
  End& peer = connection.ends[1];
  own.local = *local;
  own.local.port = own.host->next_port++;
  own.remote = remote;
  own.context = context;
  peer.local = remote;
  peer.remote = own.local;
  tcp_.open(own);
  return &own;
}

// Streams that share paths evenly do not show it, so the first ones share unevenly.
size_t Network::choose_fabric_path() {
  const size_t earlier = connections_.size() - 1;
  if (earlier < settings_.fabric_paths) return earlier == 0 ? 0 : earlier - 1;
  return rng_.below(settings_.fabric_paths);
}

uint16_t Network::listen(lyre_context* context, lyre_listener* handle, uint16_t port) {
  size_t index = 0;
  for (const auto& host : hosts_) {
    const auto& contexts = host->contexts;
    if (std::find(contexts.begin(), contexts.end(), context) != contexts.end()) index = host->index;
  }
  Host& host = *hosts_[index];
  if (port == 0) port = host.next_port++;
  if (host.listeners.contains(port)) return 0;
  host.listeners[port] = {handle, context};
  return port;
}

void Network::close_listener(Host& host, lyre_listener* handle) {
  std::erase_if(host.listeners, [&](const auto& entry) { return entry.second.handle == handle; });
}

}  // namespace lyre::adapter_sim
