#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
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

/// A limit of a rate: what is handed over waits until what came before has passed.
class Meter {
 public:
  /// When it has passed. Without a limit (0) at once.
  int64_t pass(int64_t at_ns, size_t bytes, uint64_t bytes_per_s) {
    if (bytes_per_s == 0) return at_ns;
    free_ns_ = std::max(free_ns_, at_ns) + static_cast<int64_t>(static_cast<double>(bytes) * 1e9 /
                                                                static_cast<double>(bytes_per_s));
    return free_ns_;
  }

 private:
  int64_t free_ns_ = 0;
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
  /// When a packet that the path takes now arrives. It takes that of the fabric's paths.
  int64_t arrival_ns(Place from, Place to, size_t bytes, size_t fabric_path = 0);
  /// How long a packet of so many bytes occupies a path.
  double wire_ns(size_t bytes) const;

 private:
  using Path = std::pair<Place, Place>;

  uint64_t bytes_per_s(Place from, Place to) const;

  NetworkSettings settings_;
  Events& events_;
  Rng& rng_;
  std::set<Place> down_;
  std::map<Path, int64_t> cut_until_ns_;
  std::map<Path, int64_t> free_ns_;  ///< when a path has sent what it was given
  std::map<Path, int64_t> delay_ns_;
  std::map<size_t, Meter> hosts_;
  std::map<std::tuple<size_t, size_t, size_t>, Meter> fabric_;
};

}  // namespace lyre::adapter_sim
