#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "stack/base/rng.h"
#include "tests/sim/adapter/events.h"
#include "tests/sim/adapter/network_settings.h"

/// What lies between the hosts of the simulated network.
namespace lyre::adapter_sim {

/// A port of a host.
struct Place {
  size_t host = 0;
  size_t rail = 0;
  auto operator<=>(const Place&) const = default;
};

/// The paths between ports: whether a packet gets through, and when. A path is one direction of a
/// pair of ports. It knows sizes, not packets.
class Wires {
 public:
  Wires(const NetworkSettings& settings, Events& events, Rng& rng)
      : settings_(settings), events_(events), rng_(rng) {}

  void set_rail(Place place, bool is_up) {
    is_up ? void(down_.erase(place)) : void(down_.insert(place));
  }
  bool is_up(Place place) const { return !down_.contains(place); }
  /// Nothing gets through between the two until then.
  void cut(Place one, Place other, int64_t until_ns);

  /// The path leads there, and nothing on it is broken at this moment.
  bool is_open(Place from, Place to) const;
  /// A packet that is handed over now is neither lost nor too much for the path's queue.
  bool takes(Place from, Place to);
  /// When a packet that the path takes now arrives.
  int64_t arrival_ns(Place from, Place to, size_t bytes);
  /// How long a packet of so many bytes occupies a path.
  double wire_ns(size_t bytes) const;

 private:
  using Path = std::pair<Place, Place>;

  NetworkSettings settings_;
  Events& events_;
  Rng& rng_;
  std::set<Place> down_;
  std::map<Path, int64_t> cut_until_ns_;
  std::map<Path, int64_t> free_ns_;  ///< when a path has sent what it was given
  std::map<Path, int64_t> delay_ns_;
};

}  // namespace lyre::adapter_sim
