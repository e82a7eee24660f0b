#include "nccl_adapter/comm/host_patience.h"

#include <algorithm>

namespace lyre::nccl_adapter {

int64_t HostPatience::deadline_ns(const std::string& host, int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  const Host& known = hosts_[host];
  if (known.has_vanished(now_ns)) return now_ns + ClosePatience::kFollowerGoodbyeNs;
  return known.closes.deadline_ns(now_ns);
}

void HostPatience::on_closed(const std::string& host, bool was_in_vain, int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  Host& known = hosts_[host];
  known.closes.on_closed(was_in_vain, now_ns);
  if (was_in_vain) return;
  known.releases.on_closed(false, now_ns);
  known.vanished_ns.reset();
}

int64_t HostPatience::release_deadline_ns(const std::string& host, int64_t now_ns) {
  const int64_t close_deadline_ns = deadline_ns(host, now_ns);
  const std::lock_guard lock(mutex_);
  const int64_t follower_deadline_ns = hosts_[host].releases.deadline_ns(now_ns);
  return std::min({now_ns + kDeregisterWaitNs, close_deadline_ns, follower_deadline_ns});
}

void HostPatience::on_released_in_vain(const std::string& host, int64_t begun_ns, int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  Host& known = hosts_[host];
  known.releases.on_closed(true, now_ns);
  known.closes.on_closed_without_result(begun_ns, now_ns);
}

void HostPatience::on_finalized_in_vain(const std::string& host, int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  hosts_[host].vanished_ns = now_ns;
}

bool HostPatience::have_vanished(const std::set<std::string>& hosts, int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  return !hosts.empty() && std::all_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    return hosts_[host].has_vanished(now_ns);
  });
}

}  // namespace lyre::nccl_adapter
