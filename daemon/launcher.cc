#include "daemon/launcher.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/clock.h"

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
  if (Status status = launcher->assemble(process); !status.ok()) return status.error();
  launcher->run();
  return launcher;
}

Status Launcher::assemble(const Process& process) {
  // First, before anything of another running daemon can be disturbed.
  for (const std::string& path : socket_paths(config_)) {
    if (Status status = check_socket_is_free(path); !status.ok()) return status;
  }
  if (Status status = replies_.open(); !status.ok()) return status;
  auto backend = process.start_backend(config_);
  if (!backend.ok()) return backend.error();
  auto parts = Assembly::make(config_, std::move(*backend), {.io = io_, .mappings = mappings_},
                              replies_.bell_fd());
  if (!parts.ok()) return parts.error();
  parts_ = std::move(*parts);
  if (Status status = parts_->open(); !status.ok()) return status;
  if (process.drop_privileges) {
    if (Status status = process.drop_privileges(config_); !status.ok()) return status;
  }
  if (Status status = parts_->start(); !status.ok()) return status;
  const Status kept = keeper_.keep(parts_->stats().reader_fd(), config_.socket_path);
  if (!kept.ok()) spdlog::warn("no stats for `lyre stats --last`: {}", kept.error().text);
  return Ok{};
}

void Launcher::run() {
  parts_->ports().log();
  spdlog::info("{} worker(s), {} pages, listening on {}", parts_->threads().count(),
               parts_->has_hugepages() ? "huge" : "ordinary", config_.socket_path);
  for (const DomainConfig& domain : config_.domains) {
    if (config_.has_domains) spdlog::info("domain '{}': {}", domain.name, domain.socket_path);
  }
  shutdown_ = std::make_unique<Shutdown>(parts_->registry());
  housekeeping_ = std::make_unique<Housekeeping>(io_, *parts_, notifier_);
  replies_.begin(parts_->registry(), parts_->control(), [this] { return look_at_shutdown(); });
  housekeeping_->begin();
  notifier_.ready("Serving " + parts_->ports().summary());
}

void Launcher::begin_stop() {
  if (shutdown_->has_begun()) return;
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
  parts_->control().hang_up_all("the daemon is stopping");
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
  parts_->control().hang_up_all("the daemon is stopping");
  ::_exit(1);
}

}  // namespace lyre
