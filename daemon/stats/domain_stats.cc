#include "daemon/stats/domain_stats.h"

#include <algorithm>
#include <utility>

namespace lyre {
namespace {

void copy_shown(const channel::StatsPort& from, channel::StatsPort& to) {
  constexpr auto kRelaxed = std::memory_order_relaxed;  // single values
  to.speed_mbps.store(from.speed_mbps.load(kRelaxed), kRelaxed);
  to.flow_mbps.store(from.flow_mbps.load(kRelaxed), kRelaxed);
  to.is_link_up.store(from.is_link_up.load(kRelaxed), kRelaxed);
  to.state.store(from.state.load(kRelaxed), kRelaxed);
}

void copy_facts(const channel::StatsPort& from, channel::StatsPort& to) {
  std::copy(std::begin(from.name), std::end(from.name), to.name);
  std::copy(std::begin(from.device), std::end(from.device), to.device);
  std::copy(std::begin(from.pci_path), std::end(from.pci_path), to.pci_path);
  std::copy(std::begin(from.addresses), std::end(from.addresses), to.addresses);
  std::copy(std::begin(from.mac), std::end(from.mac), to.mac);
  to.address_count = from.address_count;
  to.mtu_bytes = from.mtu_bytes;
}

}  // namespace

Result<DomainStats> DomainStats::make(const StatsSegment& all, StatsOptions options,
                                      uint32_t ports) {
  DomainStats made;
  for (uint32_t i = 0; i < options.port_count; ++i) {
    if ((ports >> i & 1) != 0) made.ports_.push_back(i);
  }
  options.port_count = static_cast<uint32_t>(made.ports_.size());
  options.is_domain = true;
  auto segment = StatsSegment::create(options);
  if (!segment.ok()) return segment.error();
  made.segment_ = std::move(*segment);
  made.segment_.header().is_successor = all.header().is_successor;
  for (uint32_t i = 0; i < options.port_count; ++i) {
    copy_facts(all.port(made.ports_[i]), made.segment_.port(i));
  }
  made.refresh(all, 0, 0);
  return made;
}

void DomainStats::refresh(const StatsSegment& all, uint32_t clients, uint64_t clients_total) const {
  segment_.header().clients.set(clients);
  segment_.header().clients_total.set(clients_total);
  for (uint32_t i = 0; i < ports_.size(); ++i) copy_shown(all.port(ports_[i]), segment_.port(i));
}

}  // namespace lyre
