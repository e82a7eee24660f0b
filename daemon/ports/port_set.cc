#include "daemon/ports/port_set.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>

#include "daemon/base/daemon_limits.h"
#include "daemon/protocol/control_message.h"
#include "stack/base/ipv6_address.h"

namespace lyre {
namespace {

constexpr uint64_t kNeighboursAtLeast = 1024;
constexpr uint64_t kNeighboursAtMost = 16384;

/// Of a memif without a link. What differs is not known: the ends have not met.
constexpr const char* kMemifEndsAgree =
    "; both ends of a memif need the same super_packets, trusted and number of workers";

/// Entries of a worker's neighbour cache for this port: one for each address of its networks,
/// within limits. A worker allocates 80 bytes for each.
uint32_t neighbours_of(const PortConfig& config) {
  if (config.neighbours_max > 0) return config.neighbours_max;
  uint64_t hosts = kNeighboursAtLeast;
  for (const Cidr& own : config.addresses) {
    const uint32_t host_bits = (own.address.is_v4() ? 32 : 128) - own.prefix_bits;
    hosts += uint64_t{1} << std::min(host_bits, 32u);
  }
  return static_cast<uint32_t>(std::min(hosts, kNeighboursAtMost));
}

void show_offloads(const io::PortInfo& info, channel::PortOffloads& shown) {
  copy_text(shown.driver, info.driver);
  shown.queue_count = info.queue_count;
  shown.tso_bytes_max = info.capabilities.tso_bytes_max;
  shown.is_nic = info.does_dma ? 1 : 0;
  shown.has_rss = info.has_rss ? 1 : 0;
  shown.has_tx_checksums = info.capabilities.tx_checksum_in_hardware ? 1 : 0;
  shown.has_rx_checksums = info.capabilities.rx_checksum_in_hardware ? 1 : 0;
}

std::vector<IpAddress> own_addresses(const PortConfig& config) {
  std::vector<IpAddress> out;
  for (const Cidr& own : config.addresses) out.push_back(own.address);
  return out;
}

}  // namespace

Status PortSet::open(io::Backend& backend, std::span<io::PacketMemory* const> memories,
                     std::span<const PortRecord> earlier, uint32_t which) {
  ports_.resize(count());
  upkeeps_.resize(count());
  for (uint32_t i = 0; i < count(); ++i) {
    if (ports_[i] != nullptr || (which >> i & 1) == 0) continue;
    if (Status opened = open_one(i, backend, memories, earlier); !opened.ok()) return opened;
  }
  return check_slots(memories);
}

/// Some drivers take more than they are told to: then little would be left for sessions, or
/// nothing.
Status PortSet::check_slots(std::span<io::PacketMemory* const> memories) const {
  for (const io::PacketMemory* memory : memories) {
    const uint32_t held = memory->rx_slot_count() - memory->rx_slots_free();
    if (held <= ring_slots_max(memory->rx_slot_count())) continue;
    return Error{EINVAL, complaint(config_.file, config_.rx_slots_line, "memory.rx_slots",
                                   too_few_slots(config_, held))};
  }
  return Ok{};
}

Status PortSet::open_one(uint32_t port, io::Backend& backend,
                         std::span<io::PacketMemory* const> memories,
                         std::span<const PortRecord> earlier) {
  const PortConfig& config = config_.ports[port];
  io::PortOptions options{.device = config.device,
                          .index = static_cast<uint8_t>(port),
                          .mtu_bytes = config.mtu_bytes,
                          .addresses = own_addresses(config),
                          .is_trusted = config.is_trusted,
                          .has_super_packets = config.has_super_packets,
                          .rx_slots_max = config_.rx_slots / 2 / count()};
  if (port < earlier.size()) {
    options.mac = earlier[port].mac;
    options.rss_key = earlier[port].rss_key;
  }
  auto opened = backend.open_port(options, memories);
  if (!opened.ok()) {
    return Error{opened.error().code, complaint(config_.file, config.lines.first,
                                                "port '" + config.name + "'", opened.error().text)};
  }
  ports_[port] = std::move(*opened);
  if (Status distinct = check_link_local(port); !distinct.ok()) return distinct;
  join_groups(port);
  return Ok{};
}

/// What could not be checked before the port's MAC address was known: its link-local address, which
/// workers derive, must not be that of another port or of a router.
Status PortSet::check_link_local(uint32_t port) const {
  const auto refuse = [&](const std::string& user) {
    const PortConfig& config = config_.ports[port];
    return Error{EINVAL, complaint(config_.file, config.lines.first, "port '" + config.name + "'",
                                   "its link-local address " +
                                       address_text(addresses_of(port).back().address) +
                                       ", of its MAC address, is " + user +
                                       ", allowed: another MAC address, or a link-local address "
                                       "in port.address")};
  };
  if (addresses_of(port).size() == config_.ports[port].addresses.size()) return Ok{};
  const IpAddress derived = addresses_of(port).back().address;
  for (uint32_t i = 0; i < count(); ++i) {
    const PortConfig& other = config_.ports[i];
    for (const IpAddress& gateway : other.gateways) {
      if (gateway == derived) return refuse("the gateway of '" + other.name + "'");
    }
    if (i == port) continue;
    const std::vector<Cidr> theirs = ports_[i] != nullptr ? addresses_of(i) : other.addresses;
    for (const Cidr& own : theirs) {
      if (own.address == derived) return refuse("that of '" + other.name + "'");
    }
  }
  for (const RouteConfig& route : config_.routes) {
    if (route.gateway == derived) return refuse("the router of a route");
  }
  return Ok{};
}

void PortSet::discard_received(std::span<io::PacketMemory* const> memories) {
  // More than a ring of any driver has. On a busy network, packets arrive meanwhile.
  constexpr int kBurstsMax = 256;
  io::PacketBuf* burst[64];
  for (const auto& port : ports_) {
    for (uint32_t i = 0; port != nullptr && i < memories.size(); ++i) {
      for (int left = kBurstsMax; left > 0; --left) {
        const size_t count = port->queue(i).rx_burst(burst);
        if (count == 0) break;
        for (io::PacketBuf* packet : std::span(burst, count)) {
          io::release_chain(*memories[i], packet);
        }
      }
    }
  }
}

/// RFC 4861 7.2.1: neighbours ask for an address of IPv6 in a group of its own.
void PortSet::join_groups(uint32_t port) {
  std::vector<MacAddress> groups;
  for (const Cidr& own : addresses_of(port)) {
    if (own.address.is_v4()) continue;
    groups.push_back(multicast_mac(solicited_node_group(own.address)));
  }
  if (groups.empty()) return;
  groups.push_back(multicast_mac(kAllNodes));
  if (Status status = ports_[port]->join(groups); !status.ok()) {
    spdlog::warn("{}: neighbours may not find its IPv6 addresses", status.error().text);
  }
}

std::vector<worker::PortBinding> PortSet::bindings(uint32_t worker) const {
  using Addresses = std::vector<IpAddress>;
  std::vector<worker::PortBinding> out;
  for (uint32_t i = 0; i < count(); ++i) {
    const PortConfig& config = config_.ports[i];
    std::vector<InterfaceAddress> addresses;
    for (const Cidr& own : config.addresses) addresses.push_back(own.interface());
    out.push_back({.io = &ports_[i]->queue(worker),
                   .addresses = std::move(addresses),
                   .gateways = config.gateways,
                   .verified_addresses = i < verified_.size() ? verified_[i] : Addresses{},
                   .takes_routers = config.accepts_routers,
                   .neighbours_max = neighbours_of(config),
                   .mtu_bytes = config.mtu_bytes,
                   .marking = config.marking});
  }
  return out;
}

std::vector<io::PacketIo*> PortSet::queues(uint32_t worker) const {
  std::vector<io::PacketIo*> out;
  for (const auto& port : ports_) out.push_back(&port->queue(worker));
  return out;
}

std::vector<Cidr> PortSet::addresses_of(uint32_t port) const {
  std::vector<Cidr> out = config_.ports[port].addresses;
  bool has_ipv6 = false;
  for (const Cidr& own : out) {
    if (is_ipv6_link_local(own.address)) return out;
    has_ipv6 = has_ipv6 || !own.address.is_v4();
  }
  const io::IoCapabilities& known = ports_[port]->info().capabilities;
  if (has_ipv6 && !known.is_beside_kernel) out.push_back({link_local_address(known.mac), 64});
  return out;
}

std::vector<channel::PortInfo> PortSet::infos() const {
  std::vector<channel::PortInfo> out;
  for (uint32_t i = 0; i < count(); ++i) {
    const PortConfig& config = config_.ports[i];
    const io::PortInfo& known = ports_[i]->info();
    channel::PortInfo& info = out.emplace_back();
    copy_text(info.name, config.name);
    copy_text(info.pci_path, known.pci_path);
    for (const Cidr& own : addresses_of(i)) {
      channel::PortAddress& address = info.addresses[info.address_count++];
      std::copy(own.address.bytes.begin(), own.address.bytes.end(), address.address);
      address.prefix_bits = own.prefix_bits;
    }
    info.mtu_bytes = config.mtu_bytes;
    const io::PortSpeed speed = speed_of(i);
    info.speed_mbps = speed.port_mbps;
    info.flow_mbps = speed.flow_mbps;
    info.is_link_up = ports_[i]->is_link_up() ? 1 : 0;
    const auto& mac = known.capabilities.mac.bytes;
    std::copy(mac.begin(), mac.end(), info.mac);
  }
  return out;
}

void PortSet::show(const StatsSegment& stats) const {
  const auto known = infos();
  for (uint32_t i = 0; i < count(); ++i) {
    channel::StatsPort& port = stats.port(i);
    copy_text(port.name, known[i].name);
    copy_text(port.device, config_.ports[i].device);
    copy_text(port.pci_path, known[i].pci_path);
    std::copy(std::begin(known[i].addresses), std::end(known[i].addresses), port.addresses);
    port.address_count = known[i].address_count;
    std::copy(std::begin(known[i].mac), std::end(known[i].mac), port.mac);
    port.mtu_bytes = known[i].mtu_bytes;
    show_offloads(ports_[i]->info(), port.offloads);
    show_speed(i, port);
    port.is_link_up.store(known[i].is_link_up, std::memory_order_relaxed);
  }
}

uint32_t PortSet::neighbour_rows() const {
  uint32_t rows = 0;
  for (const PortConfig& port : config_.ports) rows += neighbours_of(port);
  return std::min(rows, kNeighbourRowsMax);
}

/// As configured, or else as the NIC says.
io::PortSpeed PortSet::speed_of(uint32_t port) const {
  const PortConfig& config = config_.ports[port];
  io::PortSpeed speed = ports_[port]->speed();
  if (config.speed_mbps > 0) speed.port_mbps = config.speed_mbps;
  if (config.flow_mbps > 0) speed.flow_mbps = config.flow_mbps;
  return speed;
}

void PortSet::show_speed(uint32_t port, channel::StatsPort& shown) const {
  const io::PortSpeed speed = speed_of(port);
  shown.speed_mbps.store(speed.port_mbps, std::memory_order_relaxed);
  shown.flow_mbps.store(speed.flow_mbps, std::memory_order_relaxed);
}

std::vector<WatchedLink> PortSet::links(const StatsSegment& stats) const {
  std::vector<WatchedLink> out;
  for (uint32_t i = 0; i < count(); ++i) {
    out.push_back({.name = config_.ports[i].name,
                   .is_up = [port = ports_[i].get()] { return port->is_link_up(); },
                   .shown = &stats.port(i).is_link_up,
                   .on_up =
                       [this, i, shown = &stats.port(i)] {
                         ports_[i]->on_link_up();
                         show_speed(i, *shown);
                       }});
  }
  return out;
}

void PortSet::log_warning(uint32_t port) {
  const std::string& warning = ports_[port]->info().warning;
  std::string& logged = upkeeps_[port].warning;
  if (warning == logged) return;
  const std::string& name = config_.ports[port].name;
  if (warning.empty()) {
    spdlog::info("port {}: that is over: {}", name, logged);
  } else {
    spdlog::warn("port {}: {}", name, warning);
  }
  logged = warning;
}

void PortSet::look_after_devices(const StatsSegment& stats, Nanos now) {
  static constexpr const char* kNews[] = {
      "runs again", "asks for a reset", "resets itself", "is away: it is opened when it is back",
      "frees nothing of what it was given to send, and is started again"};
  for (uint32_t i = 0; i < count(); ++i) {
    ports_[i]->look(now);
    log_warning(i);
    const auto state = static_cast<uint32_t>(ports_[i]->state());
    if (stats.port(i).state.exchange(state, std::memory_order_relaxed) == state) continue;
    spdlog::warn("port {}: the device {}", config_.ports[i].name, kNews[state]);
  }
}

std::vector<CountedDevice> PortSet::devices(const StatsSegment& stats) const {
  std::vector<CountedDevice> out;
  for (uint32_t i = 0; i < count(); ++i) {
    out.push_back({.rx_missed = [port = ports_[i].get()] { return port->rx_missed(); },
                   .of_driver = [port = ports_[i].get()] { return port->device_counters(); },
                   .shown = &stats.port(i)});
  }
  return out;
}

bool PortSet::must_suspend() const {
  for (uint32_t i = 0; i < count(); ++i) {
    if (upkeeps_[i].restart == Restart::kNone && ports_[i]->needs_restart()) return true;
  }
  return false;
}

void PortSet::suspend() {
  for (uint32_t i = 0; i < count(); ++i) {
    if (upkeeps_[i].restart != Restart::kNone || !ports_[i]->needs_restart()) continue;
    ports_[i]->suspend();
    upkeeps_[i].restart = Restart::kSuspended;
  }
}

void PortSet::restart() {
  for (uint32_t i = 0; i < count(); ++i) {
    const uint32_t port = (restarts_next_ + i) % count();
    const bool is_due = upkeeps_[port].restart == Restart::kSuspended;
    if (!is_due || !ports_[port]->needs_restart()) continue;
    restarts_next_ = port + 1;
    return restart(port);
  }
}

void PortSet::restart(uint32_t port) {
  Upkeep& upkeep = upkeeps_[port];
  const bool is_running = ports_[port]->state() == io::PortState::kRunning;
  const Status status = ports_[port]->restart();
  if (status.ok()) upkeep.restart = Restart::kDone;
  const std::string failure = status.ok() ? "" : status.error().text;
  if (!failure.empty() && failure != upkeep.failure) {
    // Known already: a memif client without a server, and a device that is away.
    const bool is_known = is_running || status.error().code == ENODEV;
    spdlog::log(is_known ? spdlog::level::debug : spdlog::level::warn, "port {}: {}",
                config_.ports[port].name, failure);
  }
  upkeep.failure = failure;
}

bool PortSet::waits_for_memory() const {
  for (uint32_t i = 0; i < count(); ++i) {
    const bool is_due = upkeeps_[i].restart == Restart::kSuspended && ports_[i]->needs_restart();
    if (is_due && ports_[i]->waits_for_memory()) return true;
  }
  return false;
}

bool PortSet::must_resume() const {
  return std::any_of(upkeeps_.begin(), upkeeps_.end(),
                     [](const Upkeep& upkeep) { return upkeep.restart == Restart::kDone; });
}

void PortSet::resume() {
  for (uint32_t i = 0; i < count(); ++i) {
    if (upkeeps_[i].restart != Restart::kDone) continue;
    ports_[i]->resume();
    upkeeps_[i].restart = Restart::kNone;
  }
}

void PortSet::close(uint32_t which, const KeepAlive& keep_alive) {
  for (uint32_t i = 0; i < count(); ++i) {
    if (i >= ports_.size() || ports_[i] == nullptr || (which >> i & 1) == 0) continue;
    ports_[i]->suspend();
    ports_[i]->close();
    upkeeps_[i].restart = Restart::kSuspended;
    keep_alive();
  }
}

void PortSet::reopen(const KeepAlive& keep_alive) {
  for (uint32_t i = 0; i < count(); ++i) {
    if (upkeeps_[i].restart != Restart::kSuspended) continue;
    restart(i);
    keep_alive();
  }
  resume();
}

std::vector<PortRecord> PortSet::records() const {
  std::vector<PortRecord> out;
  for (uint32_t i = 0; i < count(); ++i) {
    const io::PortInfo& known = ports_[i]->info();
    out.push_back({.device = config_.ports[i].device,
                   .mac = known.capabilities.mac,
                   .rss_key = known.rss_key});
  }
  return out;
}

uint32_t PortSet::that_free_twice() const {
  uint32_t ports = 0;
  for (uint32_t i = 0; i < count(); ++i) {
    if (ports_[i]->info().frees_twice_when_closed) ports |= uint32_t{1} << i;
  }
  return ports;
}

void PortSet::log() const {
  for (uint32_t i = 0; i < count(); ++i) {
    const PortConfig& config = config_.ports[i];
    const io::PortInfo& known = ports_[i]->info();
    std::string addresses;
    for (const Cidr& own : addresses_of(i)) {
      addresses += " " + address_text(own.address) + "/" + std::to_string(own.prefix_bits);
    }
    const bool has_super_packets =
        config.has_super_packets || config.device.starts_with("net_af_packet");
    spdlog::info("port {}: {} ({}), address{}, MTU {}{}, {} queue(s)", config.name, known.name,
                 known.driver, addresses, config.mtu_bytes,
                 has_super_packets ? " and super-packets" : "", known.queue_count);
    if (!known.remark.empty()) spdlog::info("port {}: {}", config.name, known.remark);
    if (!ports_[i]->is_link_up()) {
      spdlog::warn("port {}: no link yet{}", config.name,
                   known.driver == "net_memif" ? kMemifEndsAgree : "");
    }
  }
}

std::string PortSet::summary() const {
  std::string out;
  for (const PortConfig& port : config_.ports) {
    out += (out.empty() ? "" : ", ") + port.name + " " + address_text(port.addresses[0].address);
  }
  return out;
}

}  // namespace lyre
