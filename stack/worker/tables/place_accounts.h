#pragma once

#include <cstdint>
#include <vector>

#include "stack/base/nanos.h"
#include "stack/base/token_bucket.h"

namespace lyre::worker {

/// RSTs for segments that belong to no connection, of one user: so many a second, and at once. The
/// same for the peers that return a cookie and find no place, together.
inline constexpr uint32_t kResetsPerSecond = 1000;
inline constexpr uint32_t kResetBurst = 1000;

/// Sessions of one user keep the entries of their neighbours for as many sessions as this share of
/// a port's entries. Entries that nobody keeps give way to new ones.
inline constexpr uint32_t kNeighbourShare = 2;

/// Connections and listeners that one client of a worker, and all clients of one user together, may
/// have.
struct PlaceLimits {
  uint32_t sessions_per_client = UINT32_MAX;
  uint32_t sessions_per_user = UINT32_MAX;
  uint32_t listeners_per_client = UINT32_MAX;
  uint32_t listeners_per_user = UINT32_MAX;
};

/// What the clients of each user have of a worker's places, and the RSTs that the worker answers
/// them with. Users have the numbers of ReceiveAccounts::user_of(). What a client has itself is the
/// length of its lists.
/// Owner: takes its memory at construction. Thread: the worker.
class PlaceAccounts {
 public:
  PlaceAccounts(const PlaceLimits& limits, uint32_t users_max)
      : limits_(limits), users_(users_max) {}

  /// Whether a client that has so many connections may have another one.
  bool may_add_session(uint32_t user, uint32_t of_client) const {
    return of_client < limits_.sessions_per_client &&
           users_[user].sessions < limits_.sessions_per_user;
  }
  bool may_add_listener(uint32_t user, uint32_t of_client) const {
    return of_client < limits_.listeners_per_client &&
           users_[user].listeners < limits_.listeners_per_user;
  }
  void add_session(uint32_t user) { ++users_[user].sessions; }
  void remove_session(uint32_t user) { --users_[user].sessions; }
  void add_listener(uint32_t user) { ++users_[user].listeners; }
  void remove_listener(uint32_t user) { --users_[user].listeners; }

  /// Whether another session of this user may keep an entry of a port that has so many.
  bool may_hold_neighbour(uint32_t user, uint32_t entries) const {
    return users_[user].holders < entries / kNeighbourShare;
  }
  void hold_neighbour(uint32_t user) { ++users_[user].holders; }
  void release_neighbour(uint32_t user) { --users_[user].holders; }

  /// Whether a segment of this user that belongs to no connection is answered. The network
  /// is a user of its own, so clients of this host cannot use up its answers.
  bool take_reset(uint32_t user, Nanos now) { return users_[user].resets.take(now); }
  /// The same for a peer that returned a cookie. Its address is its own, so those who send what
  /// they like in the name of others cannot use up its answer.
  bool take_cookie_reset(Nanos now) { return cookie_resets_.take(now); }

  const PlaceLimits& limits() const { return limits_; }
  uint32_t sessions_of(uint32_t user) const { return users_[user].sessions; }
  uint32_t listeners_of(uint32_t user) const { return users_[user].listeners; }

 private:
  struct User {
    uint32_t sessions = 0;
    uint32_t listeners = 0;
    uint32_t holders = 0;  ///< sessions that keep their neighbour's entry
    TokenBucket resets{kResetsPerSecond, kResetBurst};
  };

  PlaceLimits limits_;
  std::vector<User> users_;
  TokenBucket cookie_resets_{kResetsPerSecond, kResetBurst};
};

}  // namespace lyre::worker
