#pragma once

#include <cstdint>
#include <optional>

#include "stack/base/bounded_vector.h"
#include "stack/base/interface_address.h"
#include "stack/base/nanos.h"
#include "stack/link/ndp.h"
#include "stack/link/neighbour_out.h"
#include "stack/wire/mld.h"

namespace lyre::link {

/// RFC 3810 9.1 and 9.11: the robustness variable, and the longest interval between two reports of
/// a change. Queries of anybody on the link are answered no more often than that for each group.
inline constexpr uint8_t kMldRobustness = 2;
inline constexpr Nanos kMldReportInterval = seconds(1);

/// Reports to switches and routers to which multicast groups this host listens. Without reports a
/// switch that snoops MLD would not forward neighbour discovery to this host. No group excludes a
/// source, so the part of RFC 3810 without source lists is enough; a router of version 1 gets
/// reports of RFC 2710. Plain data. Thread: one.
class Mld {
 public:
  /// Of several workers with the same groups, one `speaks`: it alone reports changes. Each answers
  /// the queries that it receives.
  Mld(uint64_t seed, bool speaks) : seed_(seed), speaks_(speaks) {}

  /// Starts listening to `group` on `port`.
  void join(uint8_t port, const IpAddress& group, Nanos now);
  /// The link-local address of the port became usable: reports that were sent from the unspecified
  /// address are sent again (RFC 3590 4). A port without one goes on to send them from there.
  void speak_up(uint8_t port, Nanos now);
  /// Handles a router's query. Returns false when this host does not listen to the group.
  bool handle(uint8_t port, const wire::MldQuery& query, Nanos now);

  /// Appends the reports that are due. `ndp` supplies the source addresses.
  void on_timer(const Ndp& ndp, Nanos now, NeighbourOutList& out);
  Nanos next_deadline() const;

 private:
  struct Group {
    IpAddress address;
    uint8_t port = 0;
    uint8_t changes_left = 0;  ///< join reports to be sent; then only queries are answered
    bool is_version1 = false;  ///< the version of the pending answer
    Nanos deadline = kNever;
    Nanos answers_from{0};  ///< no query is answered before
  };
  Nanos some_of(Nanos longest);

  uint64_t seed_;
  bool speaks_;
  uint64_t draws_ = 0;
  BoundedVector<Group, size_t{kPortsMax} * kPortAddressesMax> groups_;
};

}  // namespace lyre::link
