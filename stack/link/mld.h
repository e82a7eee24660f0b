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

/// RFC 3810 9.1 and 9.11: the robustness variable, and the longest wait between two reports of a
/// change.
inline constexpr uint8_t kMldRobustness = 2;
inline constexpr Nanos kMldReportInterval = seconds(1);

/// Tells switches and routers in which groups this host wants to hear: without it a switch that
/// snoops keeps neighbour discovery from us. Every source is welcome in every group, so this is the
/// simple half of RFC 3810, and RFC 2710 towards who knows no other. Plain data. Thread: one.
class Mld {
 public:
  explicit Mld(uint64_t seed) : seed_(seed) {}

  /// Listens to `group` on `port` from now on.
  void join(uint8_t port, const IpAddress& group, Nanos now);
  /// The port has got its link-local address: what was said from nobody is said again (RFC 3590 4).
  void speak_up(uint8_t port, Nanos now);
  /// A router asks. False: for a group that we do not listen to.
  bool handle(uint8_t port, const wire::MldQuery& query, Nanos now);

  /// `ndp` knows from which addresses may be spoken.
  void on_timer(const Ndp& ndp, Nanos now, NeighbourOutList& out);
  Nanos next_deadline() const;

 private:
  struct Group {
    IpAddress address;
    uint8_t port = 0;
    uint8_t changes_left = 0;  ///< reports of the join still to be sent; then only answers are
    bool is_version1 = false;  ///< the answer that is due
    Nanos deadline = kNever;
  };
  Nanos some_of(Nanos longest);

  uint64_t seed_;
  uint64_t draws_ = 0;
  BoundedVector<Group, size_t{kPortsMax} * kPortAddressesMax> groups_;
};

}  // namespace lyre::link
