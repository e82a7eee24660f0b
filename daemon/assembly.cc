#include "daemon/assembly.h"

#include <spdlog/spdlog.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "daemon/clock.h"
#include "daemon/daemon_limits.h"
#include "stack/base/check.h"

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
  LYRE_CHECK(::getrandom(&secret, sizeof secret, 0) == static_cast<ssize_t>(sizeof secret));
  return secret;
}

uint32_t mtu_max(const std::vector<PortConfig>& ports) {
  uint32_t bytes = 0;
  for (const PortConfig& port : ports) bytes = std::max(bytes, port.mtu_bytes);
  return bytes;
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
    : config_(config), backend_(std::move(backend)), ports_(std::make_unique<PortSet>(config)) {}

Assembly::~Assembly() = default;

Result<std::unique_ptr<Assembly>> Assembly::make(const Config& config,
                                                 std::unique_ptr<io::Backend> backend,
                                                 const ControlThread& control, int reply_fd) {
  std::unique_ptr<Assembly> made(new Assembly(config, std::move(backend)));
  if (Status status = made->make_memories(); !status.ok()) return status.error();
  if (Status status = made->open_ports(); !status.ok()) return status.error();
  if (Status status = made->make_stats(); !status.ok()) return status.error();
  made->make_workers(reply_fd);
  if (Status status = made->make_threads(); !status.ok()) return status.error();
  made->make_registry();
  made->make_control(control);
  return made;
}

Status Assembly::make_memories() {
  io::MemoryOptions options;
  options.rx_slots = config_.rx_slots;
  options.mtu_bytes = mtu_max(config_.ports);
  for (const PortConfig& port : config_.ports) options.devices.push_back(port.device);
  for (uint32_t i = 0; i < worker_count(); ++i) {
    auto memory = backend_->make_memory(i, options);
    if (!memory.ok()) return memory.error();
    auto reader = reopen_read_only((*memory)->rx_memory_fd());
    if (!reader.ok()) return reader.error();
    memories_.push_back(std::move(*memory));
    pool_readers_.push_back(std::move(*reader));
  }
  return Ok{};
}

Status Assembly::open_ports() {
  std::vector<io::PacketMemory*> memories;
  for (const auto& memory : memories_) memories.push_back(memory.get());
  return ports_->open(*backend_, memories);
}

Status Assembly::make_stats() {
  const bool is_busy = config_.idle == IdleMode::kBusy;
  auto stats = StatsSegment::create(
      {.daemon_name = config_.name,
       .idle_policy = is_busy ? "busy" : "adaptive",
       .worker_count = worker_count(),
       .session_rows = std::min(config_.connections_max + worker::WorkerConfig{}.listeners_max,
                                kSessionRowsMax),
       .port_count = ports_->count(),
       .has_hugepages = backend_->has_hugepages(),
       .started_unix_ns = unix_now_ns()});
  if (!stats.ok()) return stats.error();
  stats_ = std::move(*stats);
  ports_->show(stats_);
  return Ok{};
}

/// The configuration that all workers share.
worker::WorkerConfig Assembly::worker_config(int reply_fd) {
  worker::WorkerConfig config;
  config.rings = rings_.get();
  config.reply_fd = reply_fd;
  config.worker_count = worker_count();
  config.engine.connections_max = config_.connections_max;
  config.contexts_max = config_.contexts_max;
  config.connection = config_.connection;
  config.secret = random_secret<SipKey>();
  config.unix_offset_ns = unix_now_ns() - monotonic_now().value;
  return config;
}

void Assembly::make_workers(int reply_fd) {
  if (worker_count() > 1) rings_ = std::make_unique<worker::InterWorkerRings>(worker_count());
  worker::WorkerConfig config = worker_config(reply_fd);
  const std::vector<worker::RouteBinding> routes = routes_of(config_);
  for (uint32_t i = 0; i < worker_count(); ++i) {
    config.index = i;
    config.seed = random_secret<uint64_t>();
    workers_.push_back(std::make_unique<worker::Worker>(
        config, *memories_[i], ports_->bindings(i), routes,
        worker::StatsBinding{.worker = &stats_.worker(i), .rows = stats_.rows(i)}));
  }
}

Status Assembly::make_threads() {
  std::vector<WorkerSeat> seats;
  for (uint32_t i = 0; i < worker_count(); ++i) {
    seats.push_back({.worker = workers_[i].get(),
                     .stats = &stats_.worker(i),
                     .core = config_.cores[i],
                     .queues = ports_->queues(i)});
  }
  auto threads = WorkerThreads::create(
      seats, {.idle = config_.idle,
              .spin = config_.spin,
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
  registry_ = std::make_unique<ContextRegistry>(
      *threads_,
      RegistryOptions{.contexts_max = config_.contexts_max,
                      .contexts_per_uid_max = config_.contexts_per_uid_max,
                      .arena_bytes_max = config_.arena_bytes_max,
                      .regions = {.bytes_per_context_max = config_.registered_bytes_max,
                                  .bytes_per_uid_max = config_.registered_bytes_per_uid_max,
                                  .regions_per_uid_max = config_.regions_per_uid_max},
                      .lend = config_.lend,
                      .lend_uid = lend_uid,
                      .ports = port_mapping()});
}

PortMapping Assembly::port_mapping() {
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
              }};
}

void Assembly::make_control(const ControlThread& control) {
  control_ = std::make_unique<ControlServer>(
      control.io, control.mappings, *registry_, facts(),
      ControlOptions{.socket_path = config_.socket_path,
                     .socket_group = config_.socket_group,
                     .socket_mode = config_.socket_mode,
                     .connections_max = config_.contexts_max + kLookersMax,
                     .connections_per_uid_max = config_.contexts_per_uid_max + kLookersPerUidMax,
                     .log_lines_per_minute_max = config_.log_lines_per_minute_max});
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
