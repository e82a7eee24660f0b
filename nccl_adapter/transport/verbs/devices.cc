#include "nccl_adapter/transport/verbs/devices.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/transport/address.h"
#include "nccl_adapter/transport/verbs/queue_pair.h"

namespace lyre::nccl_adapter {
namespace {

// A GID has no prefix. One of this length tells networks of separate rails apart. In a larger
// network it may find nothing near: then the rail decides, as it shall where all is one network.
constexpr int kSharedIpv4Bits = 96 + 24;
constexpr int kSharedIpv6Bits = 64;
/// Of one port: a table of hundreds of addresses must not keep a queue pair from other ports.
constexpr size_t kAddressesTriedMax = 4;

bool shares_network(const Address& own, const Address& remote) {
  return common_bits(own, remote) >= (is_ipv4(remote) ? kSharedIpv4Bits : kSharedIpv6Bits);
}

std::pair<bool, bool> rank_of(const VerbsPlace& place) { return {place.is_near, place.is_of_rail}; }

}  // namespace

void VerbsDevices::look(int64_t now_ns) {
  if (is_in_progress_ || now_ns - looked_ns_ < kVerbsLookNs) return;
  looked_ns_ = now_ns;
  why_not_.clear();
  int count = 0;
  ibv_device** list = api_.get_device_list(&count);
  if (list == nullptr) {
    why_not_ = std::string("RDMA devices cannot be listed: ") + std::strerror(errno);
    return;
  }
  if (count == 0) why_not_ = kNoDevice;
  const std::span<ibv_device* const> there(list, static_cast<size_t>(count));
  drop_lost(there);
  for (ibv_device* device : there) {
    if (!is_open(device)) open(device, now_ns);
  }
  api_.free_device_list(list);
}

// Paths that failed may work with a device that is new.
void VerbsDevices::open(ibv_device* device, int64_t now_ns) {
  const std::string name = api_.get_device_name(device);
  Refused& refused = refused_[name];
  if (now_ns >= refused.until_ns) {
    auto opened = VerbsDevice::open(api_, device, settings_, &refused.why);
    refused.until_ns = now_ns + kVerbsRefusedNs;
    if (opened != nullptr) {
      refused_.erase(name);
      devices_.push_back(std::move(opened));
      failed_paths_.clear();
      return;
    }
  }
  why_not_ = refused.why;
}

// One that comes back under its old name is another device.
void VerbsDevices::drop_lost(std::span<ibv_device* const> there) {
  for (const auto& device : devices_) {
    const bool is_there = std::any_of(there.begin(), there.end(),
                                      [&](const ibv_device* one) { return device->is(one); });
    if (!is_there) device->lose("the device is gone");
  }
  close_lost();
}

// The kernel may wait for that before it removes one.
void VerbsDevices::close_lost() {
  std::erase_if(devices_,
                [](const auto& device) { return device->is_lost() && device->queue_pairs() == 0; });
}

bool VerbsDevices::is_open(const ibv_device* device) const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](const auto& own) { return own->is(device); });
}

bool VerbsDevices::have(const Address& gid) const {
  const auto is_it = [&](const Gid& one) { return one.address == gid; };
  const auto has_it = [&](const VerbsPort& port) {
    return std::any_of(port.gids.begin(), port.gids.end(), is_it);
  };
  return std::any_of(devices_.begin(), devices_.end(), [&](const auto& device) {
    const std::vector<VerbsPort>& ports = device->ports();
    return !device->is_lost() && std::any_of(ports.begin(), ports.end(), has_it);
  });
}

std::vector<VerbsPlace> VerbsDevices::places(const Address& remote) const {
  std::vector<VerbsPlace> places;
  for (const auto& device : devices_) {
    if (device->is_lost()) continue;
    for (const VerbsPort& port : device->ports()) {
      const std::optional<Gid> gid = choose_gid(port.gids, remote, settings_.verbs_gid_index);
      if (!gid) continue;
      places.push_back({.device = device.get(),
                        .port = &port,
                        .gid = *gid,
                        .timeout = static_cast<uint8_t>(settings_.verbs_timeout),
                        .traffic_class = static_cast<uint8_t>(settings_.verbs_traffic_class),
                        .service_level = static_cast<uint8_t>(settings_.verbs_service_level)});
    }
  }
  std::stable_sort(places.begin(), places.end(), [](const VerbsPlace& a, const VerbsPlace& b) {
    return is_named_before(*a.port, *b.port);
  });
  return places;
}

// Ports are dealt in the order of their names: the rail of a port is the same towards all peers.
std::vector<VerbsPlace> VerbsDevices::ranked(size_t rail, std::span<const lyre_port> rails,
                                             const Address& remote) const {
  std::vector<VerbsPlace> all = places(remote);
  if (all.empty()) return all;
  std::vector<Location> locations;
  for (const VerbsPlace& place : all) locations.push_back(place.port->location);
  std::vector<Location> rail_locations;
  for (const lyre_port& port : rails) rail_locations.push_back(location_of(port));
  const std::vector<size_t> dealt = deal(locations, rail_locations);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].is_of_rail = dealt[i] == rail;
    all[i].is_near = shares_network(all[i].gid.address, remote);
  }
  if (std::find(dealt.begin(), dealt.end(), rail) == dealt.end()) {
    all[rail % all.size()].is_of_rail = true;
  }
  std::stable_sort(all.begin(), all.end(), [](const VerbsPlace& a, const VerbsPlace& b) {
    return rank_of(a) > rank_of(b);
  });
  return all;
}

void VerbsDevices::add_addresses(const Address& remote, std::vector<VerbsPlace>* places) const {
  const size_t ports = places->size();
  for (size_t i = 0; i < ports; ++i) {
    VerbsPlace place = (*places)[i];
    const auto gids = fitting_gids(place.port->gids, remote, settings_.verbs_gid_index);
    for (size_t other = 1; other < std::min(gids.size(), kAddressesTriedMax); ++other) {
      place.gid = gids[other];
      places->push_back(place);
    }
  }
}

VerbsChoice VerbsDevices::offers(size_t rail, std::span<const lyre_port> rails,
                                 const Address& remote) const {
  VerbsChoice choice{.places = ranked(rail, rails, remote)};
  std::vector<VerbsPlace>& places = choice.places;
  const auto others = std::stable_partition(
      places.begin(), places.end(), [](const VerbsPlace& place) { return place.is_of_rail; });
  choice.best = static_cast<size_t>(others - places.begin());
  choice.queue_pairs = choice.best * static_cast<size_t>(settings_.verbs_queue_pairs);
  add_addresses(remote, &places);
  return choice;
}

VerbsChoice VerbsDevices::answers(size_t rail, std::span<const lyre_port> rails,
                                  const Address& remote) const {
  VerbsChoice choice{.places = ranked(rail, rails, remote)};
  std::vector<VerbsPlace>& places = choice.places;
  choice.best =
      static_cast<size_t>(std::count_if(places.begin(), places.end(), [&](const VerbsPlace& place) {
        return rank_of(place) == rank_of(places.front());
      }));
  add_addresses(remote, &places);
  return choice;
}

bool VerbsDevices::progress(int64_t now_ns) {
  const bool reads_events = now_ns - events_ns_ >= kTickNs;
  if (reads_events) events_ns_ = now_ns;
  const bool was_in_progress = std::exchange(is_in_progress_, true);
  bool has_news = false;
  for (const auto& device : devices_) {
    if (reads_events && !device->is_lost()) device->read_events();
    has_news = device->poll() || has_news;
  }
  is_in_progress_ = was_in_progress;
  if (reads_events && !is_in_progress_) close_lost();
  return has_news;
}

size_t VerbsDevices::queue_pairs() const {
  size_t count = 0;
  for (const auto& device : devices_) count += device->queue_pairs();
  return count;
}

// The kernel blocks the caller, and with it all comms, while it resolves the peer's address.
bool VerbsDevices::connect(QueuePair& made, const QueuePairTerms& peer, int64_t now_ns,
                           std::string* why) {
  const std::pair path(made.terms().gid, peer.gid);
  const auto known = failed_paths_.find(path);
  if (known != failed_paths_.end() && now_ns < known->second.until_ns) {
    *why = known->second.why;
    return false;
  }
  if (made.connect(peer, why)) {
    failed_paths_.erase(path);
    return true;
  }
  if (failed_paths_.size() >= kFailedPathsMax) failed_paths_.clear();
  FailedPath& failed = failed_paths_[path];
  const int64_t pause_ns = kFailedPathNsMin << std::min(failed.failures++, 6u);
  failed.until_ns = now_ns + std::min(pause_ns, kOfferNsMax);
  failed.why = *why;
  return false;
}

void VerbsDevices::forget(const Memory* memory) {
  for (const auto& device : devices_) device->registrations().forget(memory);
}

}  // namespace lyre::nccl_adapter
