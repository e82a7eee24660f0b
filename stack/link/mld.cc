#include "stack/link/mld.h"

#include "stack/base/ipv6_address.h"
#include "stack/base/rng.h"

namespace lyre::link {

void Mld::join(uint8_t port, const IpAddress& group, Nanos now) {
  for (const Group& known : groups_) {
    if (known.port == port && known.address == group) return;
  }
  Group joined{.address = group, .port = port};
  if (speaks_) {
    joined.changes_left = 1;
    joined.deadline = now;
  }
  groups_.push(joined);
}

void Mld::speak_up(uint8_t port, Nanos now) {
  if (!speaks_) return;
  for (Group& group : groups_) {
    if (group.port != port) continue;
    group.changes_left = kMldRobustness;
    group.deadline = now;
  }
}

bool Mld::handle(uint8_t port, const wire::MldQuery& query, Nanos now) {
  bool is_ours = false;
  for (Group& group : groups_) {
    const bool is_meant = query.group.is_unspecified() || query.group == group.address;
    if (group.port != port || !is_meant) continue;
    is_ours = true;
    group.is_version1 = query.is_version1;
    // RFC 3810 6.2: after a random delay below the router's maximum, or with an earlier pending
    // report.
    const Nanos due = later(now + some_of(millis(query.response_ms_max)), group.answers_from);
    group.deadline = earlier(group.deadline, due);
  }
  return is_ours;
}

void Mld::on_timer(const Ndp& ndp, Nanos now, NeighbourOutList& out) {
  for (Group& group : groups_) {
    if (group.deadline > now || out.full()) continue;
    const bool is_change = group.changes_left > 0;
    const bool is_version1 = group.is_version1;
    NeighbourOut report;
    report.port = group.port;
    report.kind = NeighbourOut::Kind::kMld;
    // RFC 3590 4: the source is unspecified while there is no link-local address.
    report.mld.addresses = {ndp.link_local_of(group.port).value_or(IpAddress{}),
                            is_version1 ? group.address : wire::kMldRouters};
    report.mld.report = {group.address, is_version1, is_change};
    report.destination = multicast_mac(report.mld.addresses.destination);
    out.push(report);
    group.answers_from = now + kMldReportInterval;
    if (is_change) --group.changes_left;
    group.is_version1 = false;
    group.deadline = group.changes_left > 0 ? now + some_of(kMldReportInterval) : kNever;
  }
}

Nanos Mld::next_deadline() const {
  Nanos deadline = kNever;
  for (const Group& group : groups_) deadline = earlier(deadline, group.deadline);
  return deadline;
}

Nanos Mld::some_of(Nanos longest) {
  Rng rng(seed_ ^ ++draws_);
  return nanos(static_cast<int64_t>(rng.below(static_cast<uint64_t>(longest.value) + 1)));
}

}  // namespace lyre::link
