#include "daemon/launcher.h"

#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "daemon/control_message.h"
#include "daemon/daemon_limits.h"
#include "daemon/nic_guard.h"
#include "stack/base/check.h"
#include "stack/base/ipv6_address.h"

namespace lyre {
namespace {

/// How often links, gauges and the watchdog are looked after.
constexpr Nanos kHousePeriod = millis(250);

std::chrono::nanoseconds chrono_of(Nanos span) { return std::chrono::nanoseconds(span.value); }

int64_t unix_now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

template <typename Secret>
Secret random_secret() {
  Secret secret;
  LYRE_CHECK(::getrandom(&secret, sizeof secret, 0) == static_cast<ssize_t>(sizeof secret));
  return secret;
}

/// Each client costs several descriptors: take what this process may have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

io::dpdk::Hugepages hugepages_of(HugepagesMode mode) {
  switch (mode) {
    case HugepagesMode::kAuto:
      return io::dpdk::Hugepages::kAuto;
    case HugepagesMode::kYes:
      return io::dpdk::Hugepages::kYes;
    case HugepagesMode::kNo:
      return io::dpdk::Hugepages::kNo;
  }
  return io::dpdk::Hugepages::kAuto;
}

std::vector<InterfaceAddress> interfaces_of(const PortConfig& port) {
  std::vector<InterfaceAddress> out;
  for (const Cidr& own : port.addresses) out.push_back(own.interface());
  return out;
}

uint32_t mtu_max(const std::vector<PortConfig>& ports) {
  uint32_t bytes = 0;
  for (const PortConfig& port : ports) bytes = std::max(bytes, port.mtu_bytes);
  return bytes;
}

}  // namespace

Launcher::Launcher(const Config& config, boost::asio::io_context& io)
    : config_(config),
      io_(io),
      replies_timer_(io),
      replies_bell_(io),
      links_timer_(io),
      house_timer_(io) {}

Result<std::unique_ptr<Launcher>> Launcher::start(const Config& config,
                                                  boost::asio::io_context& io) {
  raise_descriptor_limit();
  std::unique_ptr<Launcher> launcher(new Launcher(config, io));
  // The likeliest mistake is a daemon that is there already: nothing of its is touched then.
  if (Status status = check_socket_is_free(config.socket_path); !status.ok()) return status.error();
  if (Status status = launcher->open_environment(); !status.ok()) return status.error();
  if (Status status = launcher->make_memories(); !status.ok()) return status.error();
  if (Status status = launcher->open_ports(); !status.ok()) return status.error();
  if (Status status = launcher->make_stats(); !status.ok()) return status.error();
  if (Status status = launcher->make_workers(); !status.ok()) return status.error();
  if (Status status = launcher->make_threads(); !status.ok()) return status.error();
  if (Status status = launcher->open_control(); !status.ok()) return status.error();
  launcher->announce();
  return launcher;
}

Launcher::~Launcher() = default;

Status Launcher::open_environment() {
  io::dpdk::EnvironmentOptions options;
  options.hugepages = hugepages_of(config_.hugepages);
  options.file_prefix = config_.name;
  options.worker_count = static_cast<uint32_t>(config_.cores.size());
  options.memory_mib = config_.memory_mib;
  options.is_debug = config_.log_level == LogLevel::kDebug;
  for (const PortConfig& port : config_.ports) {
    const std::string address = pci_address_of(port.device);
    if (!address.empty()) options.pci_devices.push_back(address);
  }
  auto environment = io::dpdk::Environment::start(options);
  if (!environment.ok()) return environment.error();
  environment_ = std::move(*environment);
  return Ok{};
}

Status Launcher::make_memories() {
  io::dpdk::MemoryOptions options;
  options.rx_slots = config_.rx_slots;
  options.mtu_bytes = mtu_max(config_.ports);
  for (const PortConfig& port : config_.ports) options.devices.push_back(port.device);
  for (uint32_t i = 0; i < config_.cores.size(); ++i) {
    auto memory = environment_->make_memory(i, options);
    if (!memory.ok()) return memory.error();
    auto reader = reopen_read_only((*memory)->rx_memory_fd());
    if (!reader.ok()) return reader.error();
    memories_.push_back(std::move(*memory));
    pool_readers_.push_back(std::move(*reader));
  }
  return Ok{};
}

Status Launcher::open_ports() {
  std::vector<io::PacketMemory*> memories;
  for (const auto& memory : memories_) memories.push_back(memory.get());
  for (const PortConfig& config : config_.ports) {
    const io::dpdk::PortOptions options{.device = config.device,
                                        .index = static_cast<uint8_t>(ports_.size()),
                                        .mtu_bytes = config.mtu_bytes,
                                        .is_trusted = config.is_trusted};
    auto port = environment_->open_port(options, memories);
    if (!port.ok()) {
      return Error{port.error().code, complaint(config_.file, config.line,
                                                "port '" + config.name + "'", port.error().text)};
    }
    ports_.push_back(std::move(*port));
    join_groups(static_cast<uint32_t>(ports_.size()) - 1);
  }
  return Ok{};
}

/// RFC 4861 7.2.1: neighbours ask for an address of IPv6 in a group of its own.
void Launcher::join_groups(uint32_t port) {
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

Status Launcher::make_stats() {
  const bool is_busy = config_.idle == IdleMode::kBusy;
  auto stats = StatsSegment::create(
      {.daemon_name = config_.name,
       .idle_policy = is_busy ? "busy" : "adaptive",
       .worker_count = static_cast<uint32_t>(config_.cores.size()),
       .session_rows = std::min(config_.connections_max + worker::WorkerConfig{}.listeners_max,
                                kSessionRowsMax),
       .port_count = static_cast<uint32_t>(ports_.size()),
       .has_hugepages = environment_->has_hugepages(),
       .started_unix_ns = unix_now_ns()});
  if (!stats.ok()) return stats.error();
  stats_ = std::move(*stats);
  const auto infos = port_infos();
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    channel::StatsPort& port = stats_.port(i);
    copy_text(port.name, infos[i].name);
    copy_text(port.device, config_.ports[i].device);
    copy_text(port.pci_path, infos[i].pci_path);
    std::copy(std::begin(infos[i].addresses), std::end(infos[i].addresses), port.addresses);
    port.address_count = infos[i].address_count;
    std::copy(std::begin(infos[i].mac), std::end(infos[i].mac), port.mac);
    port.mtu_bytes = infos[i].mtu_bytes;
    port.speed_mbps = infos[i].speed_mbps;
    port.is_link_up.store(infos[i].is_link_up, std::memory_order_relaxed);
  }
  return Ok{};
}

Status Launcher::make_workers() {
  OwnedFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.is_open()) return Error{errno, "no eventfd for the workers' answers"};
  worker::WorkerConfig config;
  if (config_.cores.size() > 1) {
    rings_ =
        std::make_unique<worker::InterWorkerRings>(static_cast<uint32_t>(config_.cores.size()));
    config.rings = rings_.get();
  }
  config.reply_fd = bell.get();
  replies_bell_.assign(bell.release());
  config.worker_count = static_cast<uint32_t>(config_.cores.size());
  config.engine.connections_max = config_.connections_max;
  config.contexts_max = config_.contexts_max;
  config.connection = config_.connection;
  config.secret = random_secret<SipKey>();
  config.unix_offset_ns = unix_now_ns() - monotonic_now().value;
  std::vector<worker::RouteBinding> routes;
  for (const RouteConfig& route : config_.routes) {
    routes.push_back({.network = route.network.address,
                      .prefix_bits = route.network.prefix_bits,
                      .gateway = route.gateway,
                      .port = route.port});
  }
  for (uint32_t i = 0; i < config_.cores.size(); ++i) {
    std::vector<worker::PortBinding> ports;
    for (uint32_t p = 0; p < ports_.size(); ++p) {
      ports.push_back({.io = &ports_[p]->queue(i),
                       .addresses = interfaces_of(config_.ports[p]),
                       .gateways = config_.ports[p].gateways,
                       .takes_routers = config_.ports[p].accepts_routers,
                       .mtu_bytes = config_.ports[p].mtu_bytes});
    }
    config.index = i;
    config.seed = random_secret<uint64_t>();
    workers_.push_back(std::make_unique<worker::Worker>(
        config, *memories_[i], ports, routes,
        worker::StatsBinding{.worker = &stats_.worker(i), .rows = stats_.rows(i)}));
  }
  return Ok{};
}

WorkerSeat Launcher::seat_of(uint32_t index) {
  WorkerSeat seat{.worker = workers_[index].get(),
                  .stats = &stats_.worker(index),
                  .core = config_.cores[index],
                  .wait_fds = {},
                  .can_be_woken = true};
  for (const auto& port : ports_) {
    const int fd = port->queue(index).wait_fd();
    if (fd >= 0) seat.wait_fds.push_back(fd);
    seat.can_be_woken = seat.can_be_woken && fd >= 0;
  }
  return seat;
}

Status Launcher::make_threads() {
  std::vector<WorkerSeat> seats;
  for (uint32_t i = 0; i < workers_.size(); ++i) seats.push_back(seat_of(i));
  auto threads = WorkerThreads::create(
      seats, {.idle = config_.idle,
              .spin = config_.spin,
              .on_start = [this] { return environment_->register_worker_thread(); },
              .on_end = [this] { environment_->unregister_worker_thread(); }});
  if (!threads.ok()) return threads.error();
  threads_ = std::move(*threads);
  for (uint32_t i = 0; rings_ != nullptr && i < workers_.size(); ++i) {
    rings_->set_doorbell(i, threads_->bell(i));
  }
  turns_seen_.resize(workers_.size());
  make_link_watch();
  make_device_counters();
  std::optional<uint32_t> lend_uid;
  if (config_.lend_uid >= 0) lend_uid = static_cast<uint32_t>(config_.lend_uid);
  registry_ = std::make_unique<ContextRegistry>(
      *threads_, RegistryOptions{.contexts_max = config_.contexts_max,
                                 .arena_bytes_max = config_.arena_bytes_max,
                                 .registered_bytes_max = config_.registered_bytes_max,
                                 .lend = config_.lend,
                                 .lend_uid = lend_uid,
                                 .ports = port_mapping()});
  return Ok{};
}

PortMapping Launcher::port_mapping() {
  return {.map =
              [this](const uint8_t* base, uint64_t bytes, uint64_t page_bytes) {
                const Status mapped = environment_->map_for_ports({base, bytes, page_bytes});
                if (mapped.ok() || std::exchange(was_told_of_copies_, true)) return;
                spdlog::warn("a NIC cannot read a client's memory, which is copied instead: {}",
                             mapped.error().text);
              },
          .unmap =
              [this](const uint8_t* base, uint64_t bytes) {
                environment_->unmap_for_ports({base, bytes});
              }};
}

Status Launcher::open_control() {
  control_ = std::make_unique<ControlServer>(
      io_, *registry_, facts(),
      ControlOptions{.socket_path = config_.socket_path,
                     .socket_group = config_.socket_group,
                     .socket_mode = config_.socket_mode,
                     .connections_max = config_.contexts_max + kLookersMax});
  if (Status status = control_->open(); !status.ok()) return status;
  return threads_->start();
}

DaemonFacts Launcher::facts() {
  DaemonFacts facts;
  facts.worker_count = static_cast<uint32_t>(workers_.size());
  facts.is_busy = config_.idle == IdleMode::kBusy;
  facts.doorbells_fd = threads_->doorbells_fd();
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    facts.pool_fds.push_back(pool_readers_[i].get());
    facts.pool_bytes.push_back(memories_[i]->rx_memory().size());
  }
  facts.stats_fd = stats_.reader_fd();
  facts.stats_bytes = stats_.bytes();
  facts.ports = [this] { return port_infos(); };
  return facts;
}

/// Those of the configuration, and the link-local one that workers derive as well.
std::vector<Cidr> Launcher::addresses_of(uint32_t port) const {
  std::vector<Cidr> out = config_.ports[port].addresses;
  bool has_ipv6 = false;
  for (const Cidr& own : out) {
    if (is_ipv6_link_local(own.address)) return out;
    has_ipv6 = has_ipv6 || !own.address.is_v4();
  }
  const MacAddress mac = ports_[port]->info().capabilities.mac;
  if (has_ipv6) out.push_back({link_local_address(mac), 64});
  return out;
}

std::vector<channel::PortInfo> Launcher::port_infos() const {
  std::vector<channel::PortInfo> out;
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    const PortConfig& config = config_.ports[i];
    const io::dpdk::PortInfo& known = ports_[i]->info();
    channel::PortInfo& info = out.emplace_back();
    copy_text(info.name, config.name);
    copy_text(info.pci_path, known.pci_path);
    for (const Cidr& own : addresses_of(i)) {
      channel::PortAddress& address = info.addresses[info.address_count++];
      std::copy(own.address.bytes.begin(), own.address.bytes.end(), address.address);
      address.prefix_bits = own.prefix_bits;
    }
    info.mtu_bytes = config.mtu_bytes;
    info.speed_mbps = known.capabilities.speed_mbps;
    info.is_link_up = ports_[i]->is_link_up() ? 1 : 0;
    const auto& mac = known.capabilities.mac.bytes;
    std::copy(mac.begin(), mac.end(), info.mac);
  }
  return out;
}

void Launcher::announce() {
  std::string ports;
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    const PortConfig& port = config_.ports[i];
    std::string addresses;
    for (const Cidr& own : addresses_of(i)) {
      addresses += " " + address_text(own.address) + "/" + std::to_string(own.prefix_bits);
    }
    spdlog::info("port {}: {} ({}), address{}, MTU {}, {} queue(s)", port.name,
                 ports_[i]->info().name, ports_[i]->info().driver, addresses, port.mtu_bytes,
                 ports_[i]->info().queue_count);
    if (!ports_[i]->is_link_up()) spdlog::warn("port {}: no link yet", port.name);
    ports +=
        (ports.empty() ? "" : ", ") + port.name + " " + address_text(port.addresses[0].address);
  }
  spdlog::info("{} worker(s), {} pages, listening on {}", workers_.size(),
               environment_->has_hugepages() ? "huge" : "4 KiB", config_.socket_path);
  progress_seen_ = monotonic_now();
  schedule_replies();
  wait_for_replies();
  watch_links();
  schedule_housekeeping();
  notifier_.ready("Serving " + ports);
}

void Launcher::schedule_replies() {
  const bool is_due = stop_deadline_ != kNever || registry_->has_waiting() ||
                      registry_->held_count() > registry_->attached_count();
  replies_timer_.expires_after(chrono_of(is_due ? kRepliesPeriod : kRepliesIdlePeriod));
  replies_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) take_replies();
  });
}

/// The timer below would do, but a client that registers memory waits for the answer.
void Launcher::wait_for_replies() {
  replies_bell_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [this](const boost::system::error_code& error) {
                             if (error) return;
                             eventfd_t rings = 0;
                             ::eventfd_read(replies_bell_.native_handle(), &rings);
                             look_at_replies();
                             wait_for_replies();
                           });
}

void Launcher::look_at_replies() {
  expulsions_.clear();
  registry_->poll(expulsions_);
  for (const Expulsion& expulsion : expulsions_) control_->expel(expulsion);
  for (const RegionAnswer& answer : registry_->regions().take_answers()) control_->answer(answer);
}

void Launcher::take_replies() {
  look_at_replies();
  const bool is_stopping = stop_deadline_ != kNever;
  if (!is_stopping) return schedule_replies();
  if (registry_->is_shut_down()) return finish_stop();
  if (monotonic_now() < stop_deadline_) return schedule_replies();
  give_up_on_workers();
}

void Launcher::make_link_watch() {
  std::vector<WatchedLink> links;
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    links.push_back({.name = config_.ports[i].name,
                     .is_up = [port = ports_[i].get()] { return port->is_link_up(); },
                     .shown = &stats_.port(i).is_link_up});
  }
  links_ = std::make_unique<LinkWatch>(*threads_, std::move(links));
}

void Launcher::make_device_counters() {
  std::vector<CountedDevice> devices;
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    devices.push_back({.rx_missed = [port = ports_[i].get()] { return port->rx_missed(); },
                       .shown = &stats_.port(i).rx_missed});
  }
  device_counters_ = std::make_unique<DeviceCounters>(std::move(devices));
}

void Launcher::watch_links() {
  links_timer_.expires_after(chrono_of(links_->look()));
  links_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) watch_links();
  });
}

void Launcher::schedule_housekeeping() {
  house_timer_.expires_after(chrono_of(kHousePeriod));
  house_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) keep_house();
  });
}

/// Two hosts with one address are a mistake that somebody has to mend: said once in a while.
void Launcher::look_for_conflicts(Nanos now) {
  constexpr Nanos kTellEvery = seconds(10);
  uint64_t conflicts = 0;
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    for (const Drop reason : {Drop::kArpConflict, Drop::kNdpConflict}) {
      conflicts += stats_.worker(i).drops[static_cast<size_t>(reason)].get();
    }
  }
  if (conflicts == conflicts_seen_ || now - conflicts_told_ < kTellEvery) return;
  conflicts_seen_ = conflicts;
  conflicts_told_ = now;
  spdlog::warn(
      "another machine claims an address of a port of ours: `lyre stats` counts how often");
}

void Launcher::keep_house() {
  const Nanos now = monotonic_now();
  restart_ports();
  look_for_conflicts(now);
  device_counters_->look(now);
  stats_.header().clients.set(registry_->attached_count());
  stats_.header().clients_total.set(registry_->attached_total());
  if (workers_progress()) progress_seen_ = now;
  const Nanos period = notifier_.watchdog_period();
  // A worker that hangs stops these pings, and the service manager then starts us anew.
  if (period.value > 0 && progress_seen_ == now && keep_alive_due_ <= now) {
    notifier_.keep_alive();
    keep_alive_due_ = now + period;
  }
  schedule_housekeeping();
}

/// A wire whose driver does not look for it gets another try while nobody polls its queues.
void Launcher::restart_ports() {
  const auto needs_restart = [](const auto& port) { return port->needs_restart(); };
  if (std::none_of(ports_.begin(), ports_.end(), needs_restart) || !threads_->pause()) return;
  for (const auto& port : ports_) {
    if (!needs_restart(port)) continue;
    if (Status status = port->restart(); !status.ok()) spdlog::debug("{}", status.error().text);
  }
  threads_->resume();
}

bool Launcher::workers_progress() {
  bool all = true;
  for (uint32_t i = 0; i < turns_seen_.size(); ++i) {
    const uint64_t turns = threads_->turns(i);
    all = all && turns != turns_seen_[i];
    turns_seen_[i] = turns;
  }
  return all;
}

void Launcher::begin_stop() {
  if (stop_deadline_ != kNever) return;
  spdlog::info("stopping");
  notifier_.stopping();
  control_->stop_accepting();
  registry_->shut_down();
  stop_deadline_ = monotonic_now() + kShutdownTimeout;
}

void Launcher::finish_stop() {
  threads_->stop();
  control_->hang_up_all("the daemon is stopping");
  spdlog::info("stopped");
  io_.stop();
}

/// A thread that never ends its turn cannot be joined: leave without it.
void Launcher::give_up_on_workers() {
  if (workers_progress()) {
    spdlog::warn("not every session could be reset in time");
    return finish_stop();
  }
  spdlog::critical("a worker hangs: leaving without it");
  control_->hang_up_all("the daemon is stopping");
  ::_exit(1);
}

}  // namespace lyre
