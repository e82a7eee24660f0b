#include "daemon/workers/core_keeper.h"

#include <spdlog/spdlog.h>

#include <cstring>
#include <utility>

#include "daemon/base/daemon_limits.h"
#include "machine/processors.h"

namespace lyre {

CoreKeeper::CoreKeeper(std::vector<KeptCore> cores)
    : cores_(std::move(cores)), told_(cores_.size()) {}

void CoreKeeper::look(Nanos now) {
  if (now < due_) return;
  due_ = now + kCoresPeriod;
  for (uint32_t worker = 0; worker < cores_.size(); ++worker) look_at(worker);
}

/// A worker that leaves between is_away() and pin() is pinned to its core at once; its own return,
/// some seconds later, changes nothing then. One that a failed return left away does so again.
void CoreKeeper::look_at(uint32_t worker) {
  const KeptCore& kept = cores_[worker];
  if (kept.is_away()) return;
  const std::vector<uint32_t> allowed = kept.allowed();
  if (allowed.empty()) return;
  const bool is_pinned = allowed.size() == 1 && allowed.front() == kept.core;
  if (is_pinned && told_[worker].empty()) return;
  const int error = is_pinned ? 0 : kept.pin();
  if (error != 0) return on_lost(worker, allowed, error);
  on_own_core(worker);
}

void CoreKeeper::on_lost(uint32_t worker, const std::vector<uint32_t>& allowed, int error) {
  if (std::exchange(told_[worker], allowed) == allowed) return;
  spdlog::warn(
      "worker {}: core {} was taken from the daemon (by the cpuset of its cgroup, or it is "
      "offline: {}), and the worker shares {} with other threads: give the core back, or reload "
      "the "
      "daemon with other workers.cores, as many as now",
      worker, cores_[worker].core, std::strerror(error), machine::list_of_numbers(allowed));
  cores_[worker].is_core_lost->set(1);  // last: who sees it finds the line
}

void CoreKeeper::on_own_core(uint32_t worker) {
  const bool is_back = !std::exchange(told_[worker], {}).empty();
  spdlog::log(is_back ? spdlog::level::info : spdlog::level::debug,
              "worker {}: pinned to core {} again: {}", worker, cores_[worker].core,
              is_back ? "the core is back" : "its CPU affinity was changed");
  cores_[worker].is_core_lost->set(0);
}

}  // namespace lyre
