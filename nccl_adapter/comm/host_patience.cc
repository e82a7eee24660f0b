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
  if (!was_in_vain) known.vanished_ns.reset();
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
