#include "tests/sim/adapter/wires.h"

#include <algorithm>

namespace lyre::adapter_sim {
namespace {

constexpr size_t kHeaderBytes = 60;

}  // namespace

void Wires::cut(Place one, Place other, int64_t until_ns) {
  cut_until_ns_[{one, other}] = until_ns;
  cut_until_ns_[{other, one}] = until_ns;
}

bool Wires::is_open(Place from, Place to) const {
  if (from.host == to.host) return true;
  if (!is_up(from) || !is_up(to)) return false;
  if (!settings_.is_routed && from.rail != to.rail) return false;
  const auto cut = cut_until_ns_.find({from, to});
  return cut == cut_until_ns_.end() || cut->second <= events_.now_ns();
}

bool Wires::takes(Place from, Place to) {
  if (rng_.chance_ppm(settings_.loss_ppm)) return false;
  if (settings_.queue_bytes == 0) return true;
  const int64_t wait_ns = free_ns_[{from, to}] - events_.now_ns();
  const double queued =
      static_cast<double>(wait_ns) * 1e-9 * static_cast<double>(settings_.bytes_per_s);
  return queued <= static_cast<double>(settings_.queue_bytes);
}

int64_t Wires::arrival_ns(Place from, Place to, size_t bytes, size_t fabric_path) {
  const Path path{from, to};
  auto [delay, is_new] = delay_ns_.try_emplace(path, settings_.delay_ns);
  if (is_new) delay->second *= static_cast<int64_t>(1 + rng_.below(4));
  int64_t& free_ns = free_ns_[path];
  const double slowness =
      static_cast<double>(settings_.bytes_per_s) / static_cast<double>(bytes_per_s(from, to));
  free_ns = std::max(free_ns, events_.now_ns()) + static_cast<int64_t>(wire_ns(bytes) * slowness);
  if (from.host == to.host) return free_ns + delay->second;
  const size_t all = bytes + kHeaderBytes;
  const int64_t sent_ns = hosts_[from.host].pass(free_ns, all, settings_.host_bytes_per_s);
  return fabric_[{from.host, to.host, fabric_path}].pass(sent_ns, all,
                                                         settings_.fabric_path_bytes_per_s) +
         delay->second;
}

uint64_t Wires::bytes_per_s(Place from, Place to) const {
  uint64_t least = settings_.bytes_per_s;
  for (const size_t rail : {from.rail, to.rail}) {
    if (rail < settings_.rail_bytes_per_s.size()) {
      least = std::min(least, settings_.rail_bytes_per_s[rail]);
    }
  }
  return least;
}

double Wires::wire_ns(size_t bytes) const {
  return static_cast<double>(bytes + kHeaderBytes) * 1e9 /
         static_cast<double>(settings_.bytes_per_s);
}

}  // namespace lyre::adapter_sim
