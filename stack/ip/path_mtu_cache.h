#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "stack/base/ip_address.h"
#include "stack/base/nanos.h"
#include "stack/base/siphash.h"

namespace lyre::ip {

/// RFC 1191 6.3, RFC 8201 5.3: the lifetime of an entry.
inline constexpr Nanos kPathMtuLife = seconds(600);

/// What routers told about the MTU on the way to a destination, or losses showed.
struct PathMtu {
  uint32_t mtu_bytes = 0;
  Nanos noted_at;
};

/// RFC 1191 6.3, RFC 8201 5.2: the path MTU by destination, so that a new connection does not have
/// to learn it again. Only paths that carry less than their port are in it.
/// It has a fixed number of places, each for the destinations with one hash value: a new entry
/// replaces the old one. What is forgotten is learned again.
/// Owner: itself. Thread: the worker.
class PathMtuCache {
 public:
  explicit PathMtuCache(SipKey key) : key_(key) {}

  void note(const IpAddress& destination, uint32_t mtu_bytes, Nanos now) {
    place_of(destination) = {.destination = destination, .path = {mtu_bytes, now}};
  }
  /// Empty when nothing is known, or it is older than kPathMtuLife.
  std::optional<PathMtu> find(const IpAddress& destination, Nanos now) const {
    const Place& place = places_[index_of(destination)];
    const bool is_known = place.path.mtu_bytes != 0 && place.destination == destination &&
                          now - place.path.noted_at < kPathMtuLife;
    return is_known ? std::optional(place.path) : std::nullopt;
  }

  static constexpr size_t kPlaces = 1024;  ///< a destination replaces another one in its place

 private:
  struct Place {
    IpAddress destination;
    PathMtu path;
  };

  size_t index_of(const IpAddress& destination) const {
    return SipHash(key_)(destination.bytes) % kPlaces;
  }
  Place& place_of(const IpAddress& destination) { return places_[index_of(destination)]; }

  SipKey key_;
  std::array<Place, kPlaces> places_{};
};

}  // namespace lyre::ip
