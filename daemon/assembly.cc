#include "daemon/assembly.h"

#include <spdlog/spdlog.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/daemon_limits.h"
#include "daemon/base/preferred_node.h"
#include "daemon/config/config_domains.h"
#include "daemon/memory/region_window.h"
#include "stack/base/check.h"
#include "stack/ip/route_table.h"

namespace lyre {
namespace {

int64_t unix_now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

template <typename Secret>
Secret random_secret() {
  Secret secret;
  // At the start only. Up to 256 bytes are given whole, once the system has any (getrandom(2)).
  LYRE_CHECK(::getrandom(&secret, sizeof secret, 0) == static_cast<ssize_t>(sizeof secret));
  return secret;
}

uint32_t mtu_max(const std::vector<PortConfig>& ports) {
  uint32_t bytes = 0;
  for (const PortConfig& port : ports) bytes = std::max(bytes, port.mtu_bytes);
  return bytes;
}

/// Of the stats segment, for each worker.
uint32_t connection_rows(const Config& config) {
  return std::min(config.connections_max, kSessionRowsMax);
}

std::vector<worker::RouteBinding> routes_of(const Config& config) {
  std::vector<worker::RouteBinding> routes;
  for (const RouteConfig& route : config.routes) {
    routes.push_back({.network = route.network.address,
                      .prefix_bits = route.network.prefix_bits,
                      .gateway = route.gateway,
                      .port = route.port});
  }
  return routes;
}

}  // namespace

Assembly::Assembly(const Config& config, std::unique_ptr<io::Backend> backend)
    : config_(config),
      unix_offset_ns_(unix_now_ns() - monotonic_now().value),
      backend_(std::move(backend)),
      ports_(std::make_unique<PortSet>(config)) {}

Assembly::~Assembly() = default;

Result<std::unique_ptr<Assembly>> Assembly::make(const Config& config,
                                                 std::unique_ptr<io::Backend> backend,
                                                 const ControlThread& control, int reply_fd) {
  auto made = prepare(config, std::move(backend));
  if (!made.ok()) return made;
  if (Status status = (*made)->complete(control, reply_fd); !status.ok()) return status.error();
  return made;
}

Result<std::unique_ptr<Assembly>> Assembly::prepare(const Config& config,
                                                    std::unique_ptr<io::Backend> backend) {
  std::unique_ptr<Assembly> made(new Assembly(config, std::move(backend)));
  if (Status status = made->make_memories(); !status.ok()) return status.error();
  if (Status status = made->make_stats(); !status.ok()) return status.error();
  made->make_rules();
  made->make_rings();
  return made;
}

Status Assembly::complete(const ControlThread& control, int reply_fd, const Heritage* heritage) {
  stats_.header().is_successor = heritage != nullptr ? 1 : 0;
  secret_ = heritage != nullptr ? heritage->secret : random_secret<SipKey>();
  const Status opened =
      open_ports(heritage != nullptr ? std::span(heritage->ports) : std::span<const PortRecord>());
  if (!opened.ok()) return opened;
  if (heritage != nullptr) ports_->set_verified(heritage->verified_addresses);
  ports_->show(stats_);
  if (Status status = make_domain_stats(); !status.ok()) return status;
  make_workers(reply_fd);
  if (Status status = make_threads(); !status.ok()) return status;
  make_registry();
  make_control(control);
  return Ok{};
}

Status Assembly::make_memories() {
  io::MemoryOptions options;
  options.rx_slots = config_.rx_slots;
  options.mtu_bytes = mtu_max(config_.ports);
  for (const PortConfig& port : config_.ports) {
    options.devices.push_back(port.device);
    options.has_super_packets = options.has_super_packets || port.has_super_packets;
  }
  for (uint32_t i = 0; i < worker_count(); ++i) {
    options.numa_node = memory_node_of(i);
    const PreferredNode node(options.numa_node);
    auto memory = backend_->make_memory(i, options);
    if (!memory.ok()) return memory.error();
    auto reader = reopen_read_only((*memory)->rx_memory_fd());
    if (!reader.ok()) return reader.error();
    memories_.push_back(std::move(*memory));
    pool_readers_.push_back(std::move(*reader));
  }
  return Ok{};
}

std::vector<uint32_t> Assembly::other_cores_of(uint32_t worker) const {
  if (worker >= config_.other_cores.size()) return {};
  return config_.other_cores[worker];
}

int Assembly::memory_node_of(uint32_t worker) const {
  return worker < config_.memory_nodes.size() ? config_.memory_nodes[worker] : -1;
}

/// Opening takes a while. What arrives from here on is kept: the other process may not see it any
/// more, and what it does see arrives twice, which TCP takes for a retransmission.
Status Assembly::open_ports_early(const Heritage& heritage, uint32_t which) {
  Status opened = open_ports(heritage.ports, which);
  ports_->discard_received(memories());
  return opened;
}

Status Assembly::open_ports(std::span<const PortRecord> earlier, uint32_t which) {
  return ports_->open(*backend_, memories(), earlier, which);
}

std::vector<io::PacketMemory*> Assembly::memories() const {
  std::vector<io::PacketMemory*> out;
  for (const auto& memory : memories_) out.push_back(memory.get());
  return out;
}

Status Assembly::make_stats() {
  StatsOptions options = stats_options();
  // The administrator's segment shows who is on the networks, and what happened to sessions, too.
  options.neighbour_rows = ports_->neighbour_rows();
  options.route_rows = ip::kRoutesMax;
  options.trace_rings = std::min(config_.connections_max, kTraceRingsMax);
  options.ended_rows = kEndedRows;
  auto stats = StatsSegment::create(options);
  if (!stats.ok()) return stats.error();
  stats_ = std::move(*stats);
  return Ok{};
}

StatsOptions Assembly::stats_options() const {
  const bool is_busy = config_.idle == IdleMode::kBusy;
  return {.daemon_name = config_.name,
          .idle_policy = is_busy ? "busy" : "adaptive",
          .worker_count = worker_count(),
          .session_rows = connection_rows(config_) + worker::WorkerConfig{}.listeners_max,
          .client_rows = config_.contexts_max,
          .port_count = static_cast<uint32_t>(config_.ports.size()),
          .has_hugepages = backend_->has_hugepages(),
          .started_unix_ns = monotonic_now().value + unix_offset_ns_,
          .unix_offset_ns = unix_offset_ns_};
}

void Assembly::make_rules() {
  for (const DomainConfig& domain : config_.domains) {
    worker::DomainRules& rules = rules_.emplace_back();
    rules.index = static_cast<uint32_t>(rules_.size() - 1);
    rules.ports = domain.ports;
    rules.may_listen = domain.may_listen;
    rules.may_use_low_ports = domain.may_use_low_ports;
    rules.has_account = config_.domains.size() > 1;
    rules.weight = domain.weight;
    if (domain.connections_max > 0) rules.sessions_max = domain.connections_max;
    if (domain.listeners_max > 0) rules.listeners_max = domain.listeners_max;
    for (const Cidr& peer : domain.peers) rules.peers.push_back(peer.interface());
  }
}

/// A single domain has no segment of its own: its clients read the administrator's.
Status Assembly::make_domain_stats() {
  if (config_.domains.size() < 2) return Ok{};
  for (const DomainConfig& domain : config_.domains) {
    StatsOptions options = stats_options();
    options.daemon_name += "/" + domain.name;
    auto stats = DomainStats::make(stats_, options, domain.ports);
    if (!stats.ok()) return stats.error();
    domain_stats_.push_back(std::move(*stats));
  }
  return Ok{};
}

/// The places that one client, or one user, may take, so that the others find some.
worker::PlaceLimits Assembly::place_limits() const {
  const uint32_t all = config_.connections_max;
  const auto or_share = [](uint32_t configured, uint32_t share) {
    return configured > 0 ? configured : share;
  };
  return {.sessions_per_client = or_share(config_.client_connections_max, all - all / 4),
          .sessions_per_user = or_share(config_.connections_per_uid_max, all - all / 8),
          .listeners_per_client = config_.listeners_max,
          .listeners_per_user = config_.listeners_per_uid_max};
}

/// The configuration that all workers share.
worker::WorkerConfig Assembly::worker_config(int reply_fd) {
  worker::WorkerConfig config;
  config.rings = rings_.get();
  config.neighbour_board = neighbour_board_.get();
  config.reply_fd = reply_fd;
  config.worker_count = worker_count();
  config.engine.connections_max = config_.connections_max;
  // Each payload that is kept has a slot at least.
  config.engine.received_runs_max = std::max(config.engine.received_runs_max, config_.rx_slots);
  config.contexts_max = config_.contexts_max;
  config.places = place_limits();
  config.connection = config_.connection;
  config.secret = secret_;
  config.unix_offset_ns = unix_offset_ns_;
  return config;
}

void Assembly::make_rings() {
  const PreferredNode node(memory_node_of(0));
  if (worker_count() == 1) return;
  rings_ = std::make_unique<worker::InterWorkerRings>(worker_count());
  neighbour_board_ =
      std::make_unique<link::NeighbourBoard>(random_secret<SipKey>(), worker_count());
}

void Assembly::make_workers(int reply_fd) {
  worker::WorkerConfig config = worker_config(reply_fd);
  const std::vector<worker::RouteBinding> routes = routes_of(config_);
  for (uint32_t i = 0; i < worker_count(); ++i) {
    const PreferredNode node(memory_node_of(i));
    config.index = i;
    config.seed = random_secret<uint64_t>();
    workers_.push_back(std::make_unique<worker::Worker>(config, *memories_[i], ports_->bindings(i),
                                                        routes, stats_binding(i)));
  }
}

void Assembly::refresh_domain_stats() const {
  for (size_t i = 0; i < domain_stats_.size(); ++i) {
    domain_stats_[i].refresh(stats_, registry_->attached_count_of(rules_[i]),
                             registry_->attached_total(rules_[i]));
  }
}

worker::StatsBinding Assembly::stats_binding(uint32_t worker) const {
  worker::StatsBinding binding{.worker = &stats_.worker(worker),
                               .rows = stats_.rows(worker),
                               .traces = stats_.traces(worker),
                               .ended = stats_.ended(worker),
                               .clients = stats_.clients(worker),
                               .queues = stats_.queues(worker),
                               .neighbours = stats_.neighbours(worker)};
  if (worker == 0) binding.routes = stats_.routes();
  binding.connection_rows = connection_rows(config_);
  for (const DomainStats& domain : domain_stats_) {
    binding.domain_rows.push_back(domain.rows(worker));
    binding.domain_clients.push_back(domain.clients(worker));
  }
  return binding;
}

Status Assembly::make_threads() {
  std::vector<WorkerSeat> seats;
  for (uint32_t i = 0; i < worker_count(); ++i) {
    seats.push_back({.worker = workers_[i].get(),
                     .stats = &stats_.worker(i),
                     .core = config_.cores[i],
                     .other_cores = other_cores_of(i),
                     .queues = ports_->queues(i)});
  }
  auto threads = WorkerThreads::create(
      seats, {.idle = config_.idle,
              .spin = config_.spin,
              .awake = config_.awake,
              .on_start = [this] { return backend_->register_worker_thread(); },
              .on_end = [this] { backend_->unregister_worker_thread(); }});
  if (!threads.ok()) return threads.error();
  threads_ = std::move(*threads);
  for (uint32_t i = 0; rings_ != nullptr && i < worker_count(); ++i) {
    rings_->set_doorbell(i, threads_->bell(i));
  }
  links_ = std::make_unique<LinkWatch>(*threads_, ports_->links(stats_));
  return Ok{};
}

void Assembly::make_registry() {
  std::optional<uint32_t> lend_uid;
  if (config_.lend_uid >= 0) lend_uid = static_cast<uint32_t>(config_.lend_uid);
  std::vector<DomainLimits> domains;
  for (const DomainConfig& domain : config_.domains) {
    domains.push_back(
        {.contexts_max = domain.contexts_max, .registered_bytes_max = domain.registered_bytes_max});
  }
  registry_ = std::make_unique<ContextRegistry>(
      *threads_,
      RegistryOptions{.contexts_max = config_.contexts_max,
                      .contexts_per_uid_max = config_.contexts_per_uid_max,
                      .arena_bytes_max = config_.arena_bytes_max,
                      .arena_bytes_per_uid_max = config_.arena_bytes_per_uid_max,
                      .regions = {.bytes_per_context_max = config_.registered_bytes_max,
                                  .bytes_per_uid_max = config_.registered_bytes_per_uid_max,
                                  .regions_per_uid_max = config_.regions_per_uid_max},
                      .domains = std::move(domains),
                      .lend = lending_of(config_),
                      .lend_uid = lend_uid,
                      .ports = port_mapping()});
}

PortMapping Assembly::port_mapping() {
  static_assert(RegionWindow::kAlignment % io::kRegionWindowPageBytes == 0);
  return {.map =
              [this](const uint8_t* base, uint64_t bytes, uint64_t page_bytes) {
                const Status mapped = backend_->map_for_ports({base, bytes, page_bytes});
                if (mapped.ok() || was_told_of_copies_.exchange(true)) return;
                spdlog::warn("a NIC cannot read a client's memory, which is copied instead: {}",
                             mapped.error().text);
              },
          .unmap =
              [this](const uint8_t* base, uint64_t bytes) {
                backend_->unmap_for_ports({base, bytes});
              },
          .set_window =
              [this](std::span<const uint8_t> window) { backend_->set_region_window(window); }};
}

void Assembly::make_control(const ControlThread& control) {
  for (size_t i = 0; i < config_.domains.size(); ++i) {
    const DomainConfig& domain = config_.domains[i];
    add_control(control, facts_of(i),
                {.domain = domain.name,
                 .rules = config_.has_domains ? &rules_[i] : nullptr,
                 .uids = domain.uids,
                 .gids = domain.gids,
                 .contexts_max = domain.contexts_max,
                 .registered_bytes_max = domain.registered_bytes_max,
                 .shows_packets = !config_.has_domains,
                 .socket_path = domain.socket_path,
                 .socket_group = domain.socket_group,
                 .socket_mode = domain.socket_mode});
  }
  if (!config_.has_domains) return;
  add_control(control, facts(),
              {.domain = "the administrator's",
               .serves_clients = false,
               .shows_packets = true,
               .socket_path = config_.socket_path,
               .socket_mode = config_.socket_mode});
}

void Assembly::add_control(const ControlThread& control, DaemonFacts facts,
                           ControlOptions options) {
  options.closer = closer_;
  options.connections_max = config_.contexts_max + kLookersMax;
  options.connections_per_uid_max = config_.contexts_per_uid_max + kLookersPerUidMax;
  options.log_lines_per_minute_max = config_.log_lines_per_minute_max;
  control_.add(std::make_unique<ControlServer>(control.io, control.mappings, *registry_,
                                               std::move(facts), std::move(options)));
}

/// What clients of a domain are told: its ports, and its sessions.
DaemonFacts Assembly::facts_of(size_t domain) {
  DaemonFacts known = facts();
  const uint32_t ports = rules_[domain].ports;
  known.ports = [this, ports] {
    std::vector<channel::PortInfo> own;
    const auto all = ports_->infos();
    for (size_t i = 0; i < all.size(); ++i) {
      if ((ports >> i & 1) != 0) own.push_back(all[i]);
    }
    return own;
  };
  if (domain_stats_.empty()) return known;
  known.stats_fd = domain_stats_[domain].reader_fd();
  known.stats_bytes = domain_stats_[domain].bytes();
  return known;
}

DaemonFacts Assembly::facts() {
  DaemonFacts facts;
  facts.worker_count = worker_count();
  facts.is_busy = config_.idle == IdleMode::kBusy;
  facts.doorbells_fd = threads_->doorbells_fd();
  for (uint32_t i = 0; i < worker_count(); ++i) {
    facts.pool_fds.push_back(pool_readers_[i].get());
    facts.pool_bytes.push_back(memories_[i]->rx_memory().size());
  }
  facts.stats_fd = stats_.reader_fd();
  facts.stats_bytes = stats_.bytes();
  facts.ports = [this] { return ports_->infos(); };
  return facts;
}

}  // namespace lyre
