#include "daemon/launcher.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "daemon/base/clock.h"
#include "daemon/base/errno_error.h"
#include "daemon/host/kernel_queues.h"
#include "daemon/host/worker_placement.h"
#include "daemon/upgrade/port_handover.h"

namespace lyre {
namespace {

/// Each client needs several descriptors: raise the soft limit to the hard one.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Launcher::Launcher(const Config& config, boost::asio::io_context& io, MappingHelperProcess helper,
                   StatsKeeper keeper)
    : config_(config),
      io_(io),
      keeper_(std::move(keeper)),
      mappings_(io, std::move(helper)),
      replies_(io) {}

Launcher::~Launcher() = default;

Result<std::unique_ptr<Launcher>> Launcher::start(const Config& config, boost::asio::io_context& io,
                                                  Process process) {
  raise_descriptor_limit();
  std::unique_ptr<Launcher> launcher(
      new Launcher(config, io, std::move(process.helper), std::move(process.keeper)));
  launcher->program_ = process.program;
  if (Status status = launcher->assemble(process); !status.ok()) return status.error();
  launcher->run();
  return launcher;
}

Status Launcher::assemble(const Process& process) {
  if (!process.predecessor.is_open()) return make_all(process);
  OwnedFd link(::fcntl(process.predecessor.get(), F_DUPFD_CLOEXEC, 0));
  if (!link.is_open()) return errno_error("the running daemon cannot be heard");
  Successor successor(std::move(link));
  if (Status taken = try_to_succeed(process, successor); !taken.ok()) {
    fail_to_succeed(successor, taken.error());
  }
  parts_->threads().resume();
  // Before any request of this process: those that the helper has begun are the other process's
  // then, and nobody waits for them. Until commit() the helper is that process's.
  mappings_.replace_helper();
  successor.go_on(*parts_);
  keep_stats();
  return Ok{};
}

/// Fails: devices that only one process can have have come to rest, unless there was no memory. An
/// exception may then have passed code of a driver that holds a lock, so the ports are not closed
/// here: the end of this process closes the devices, and the other one waits for that, or ends it.
Status Launcher::try_to_succeed(const Process& process, Successor& successor) {
  Status taken = Error{ENOMEM, "no memory to take over"};
  try {
    taken = succeed(process, successor);
    if (!taken.ok() && parts_) {
      parts_->ports().close(ports_with(PortHandover::kClosed, config_), [] {});
    }
  } catch (const std::bad_alloc&) {
  }
  return taken;
}

/// As in end_replaced().
void Launcher::fail_to_succeed(const Successor& successor, const Error& error) {
  spdlog::error("{}", error.text);
  successor.give_up(error);
  spdlog::shutdown();
  ::_exit(1);
}

Status Launcher::make_all(const Process& process) {
  // First, before anything of another running daemon can be disturbed.
  for (const std::string& path : socket_paths(config_)) {
    if (Status status = check_socket_is_free(path); !status.ok()) return status;
  }
  if (Status status = replies_.open(); !status.ok()) return status;
  auto backend = process.start_backend(config_, std::nullopt);
  if (!backend.ok()) return backend.error();
  limit_to_queue_pairs(process, **backend);
  auto parts = Assembly::make(config_, std::move(*backend), {.io = io_, .mappings = mappings_},
                              replies_.bell_fd());
  if (!parts.ok()) return parts.error();
  parts_ = std::move(*parts);
  if (Status status = parts_->open(); !status.ok()) return status;
  if (Status status = make_ready(process); !status.ok()) return status;
  keep_stats();
  return Ok{};
}

/// In the place of a daemon that runs: the ports last, and workers that make no turn until that one
/// must not make any more.
Status Launcher::succeed(const Process& process, Successor& successor) {
  const auto workers = successor.await_offer();
  if (!workers.ok()) return workers.error();
  if (limit_workers(process, workers.value(), workers.value())) {
    spdlog::info("as many workers as the running daemon has; {}", placement_text(config_));
  }
  if (Status status = successor.meet(config_); !status.ok()) return status;
  if (Status status = replies_.open(); !status.ok()) return status;
  auto backend = process.start_backend(config_, successor.nic_owner());
  if (!backend.ok()) return backend.error();
  auto parts = Assembly::prepare(config_, std::move(*backend));
  if (!parts.ok()) return parts.error();
  parts_ = std::move(*parts);
  Status status =
      parts_->open_ports_early(successor.heritage(), ports_with(PortHandover::kBefore, config_));
  if (status.ok()) status = successor.await_ports();
  if (!status.ok()) return status;
  status = parts_->complete({.io = io_, .mappings = mappings_}, replies_.bell_fd(),
                            &successor.heritage());
  if (status.ok()) status = successor.take_over(*parts_);
  if (status.ok()) status = successor.watch_sockets(*parts_, mappings_);
  if (!status.ok()) return status;
  parts_->threads().hold();
  if (status = make_ready(process); !status.ok()) return status;
  return successor.commit();
}

/// False: nothing changes, because the file names the cores or their number is between the two.
bool Launcher::limit_workers(const Process& process, uint32_t least, uint32_t most) {
  const bool is_within = least <= config_.cores.size() && config_.cores.size() <= most;
  if (is_within || !config_.has_chosen_cores || !process.limit_workers) return false;
  process.limit_workers(config_, least, most);
  return true;
}

/// Each worker needs a queue pair at each port. Drivers say how many they have after they have
/// opened their devices; a daemon that takes over has as many workers as the one before it.
void Launcher::limit_to_queue_pairs(const Process& process, const io::Backend& backend) {
  for (const PortConfig& port : config_.ports) {
    const uint32_t most = backend.queue_pairs_max(port.device);
    if (most == 0 || !limit_workers(process, /*least=*/1, most)) continue;
    spdlog::info("port {} has {} queue pair(s); {}", port.name, most, placement_text(config_));
  }
}

Status Launcher::make_ready(const Process& process) {
  if (process.drop_privileges) {
    if (Status status = process.drop_privileges(config_); !status.ok()) return status;
  }
  return parts_->start();
}

void Launcher::keep_stats() {
  const Status kept = keeper_.keep(parts_->stats().reader_fd(), config_.socket_path);
  if (!kept.ok()) spdlog::warn("no stats for `lyre stats --last`: {}", kept.error().text);
}

void Launcher::run() {
  parts_->ports().log();
  spdlog::info("{} worker(s), {} pages, listening on {}", parts_->threads().count(),
               parts_->has_hugepages() ? "huge" : "ordinary", config_.socket_path);
  for (const std::string& line : kernel_queues(config_)) spdlog::warn("{}", line);
  for (const DomainConfig& domain : config_.domains) {
    if (config_.has_domains) spdlog::info("domain '{}': {}", domain.name, domain.socket_path);
  }
  shutdown_ = std::make_unique<Shutdown>(parts_->registry());
  housekeeping_ = std::make_unique<Housekeeping>(io_, *parts_, notifier_);
  replies_.begin(parts_->registry(), parts_->control(), [this] { return look_at_shutdown(); });
  housekeeping_->begin();
  serve_upgrades();
  notifier_.ready("Serving " + parts_->ports().summary());
}

void Launcher::serve_upgrades() {
  predecessor_ = std::make_unique<Predecessor>(
      io_, Predecessor::Parts{.config = config_,
                              .assembly = *parts_,
                              .replies = replies_,
                              .mappings = mappings_,
                              .program = program_,
                              .keep_alive = [this] { notifier_.keep_alive(); },
                              .on_replaced = [this](pid_t pid) { end_replaced(pid); }});
  parts_->control().serve_upgrades([this](auto answer) {
    if (shutdown_->has_begun())
      return answer({.status = Error{ESHUTDOWN, "the daemon is stopping"}});
    predecessor_->begin(std::move(answer));
  });
}

/// Nothing is closed in order: what it would close belongs to the other process now.
void Launcher::end_replaced(pid_t successor) {
  notifier_.replaced(successor);
  parts_->stats().header().has_stopped.set(1);
  spdlog::shutdown();
  ::_exit(0);
}

void Launcher::begin_stop() {
  if (shutdown_->has_begun()) return;
  predecessor_->cancel();
  spdlog::info("stopping");
  notifier_.stopping();
  parts_->control().stop_accepting();
  shutdown_->begin(monotonic_now());
}

bool Launcher::look_at_shutdown() {
  switch (shutdown_->state(monotonic_now())) {
    case Shutdown::State::kNotAsked:
      return false;
    case Shutdown::State::kWaiting:
      break;
    case Shutdown::State::kComplete:
      finish_stop();
      break;
    case Shutdown::State::kOverdue:
      give_up_on_workers();
      break;
  }
  return true;
}

void Launcher::finish_stop() {
  parts_->threads().stop();
  parts_->control().hang_up_all();
  parts_->stats().header().has_stopped.set(1);
  spdlog::info("stopped");
  io_.stop();
}

/// A thread that does not end its turn cannot be joined: end the process.
void Launcher::give_up_on_workers() {
  if (!housekeeping_->is_worker_hanging()) {
    spdlog::warn("not every session was reset in time");
    return finish_stop();
  }
  spdlog::critical("a worker hangs: the daemon ends without stopping it");
  parts_->control().hang_up_all();
  ::_exit(1);
}

}  // namespace lyre
