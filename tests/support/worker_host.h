#pragma once

#include <memory>
#include <vector>

#include "stack/channel/stats.h"
#include "stack/io/sim/link.h"
#include "stack/io/sim/memory.h"
#include "stack/worker/worker.h"

namespace lyre::test {

struct HostOptions {
  int end = 0;  ///< of the link
  uint32_t address = 0x0a090001;
  std::vector<InterfaceAddress> addresses{};  ///< in place of `address`
  std::vector<IpAddress> gateways{};
  bool takes_routers = false;
  io::sim::Link* second_link = nullptr;  ///< with a second port, at the same end
  uint32_t second_address = 0x0a0a0001;
  uint32_t rx_slots = 512;
  uint32_t connections_max = 64;
  uint32_t contexts_max = 16;
  uint32_t segment_bytes = UINT32_MAX;  ///< of client memory, as ports read it
  uint64_t seed = 1;
  tcp::ConnectionConfig connection{};
  IpMarking marking{};
  uint32_t domains = 0;  ///< with rows of their own
  worker::PlaceLimits places{};
  uint32_t neighbours_max = 1024;
};

/// A host of the simulated wire: the real worker on simulated packet memory.
class WorkerHost {
 public:
  WorkerHost(io::sim::Link& link, const HostOptions& options)
      : memory_({.rx_slots = options.rx_slots,
                 .frame_bytes = link.options().mtu_bytes + 64,
                 .tx_packets = 256,
                 .segment_bytes = options.segment_bytes}),
        stats_(new channel::WorkerStats()),
        row_count_(options.connections_max + kListenerRows),
        rows_(new channel::SessionRow[row_count_ * (1 + options.domains)]()),
        domain_client_rows_(16 * options.domains) {
    std::vector<worker::PortBinding> ports;
    ports.push_back({.io = &link.add_queue(options.end, memory_),
                     .addresses = addresses_of(options),
                     .gateways = options.gateways,
                     .takes_routers = options.takes_routers,
                     .neighbours_max = options.neighbours_max,
                     .mtu_bytes = link.options().mtu_bytes,
                     .marking = options.marking});
    if (options.second_link != nullptr) {
      const IpAddress address = IpAddress::v4(options.second_address);
      ports.push_back({.io = &options.second_link->add_queue(options.end, memory_, 1),
                       .addresses = {InterfaceAddress::of(address, 24)},
                       .mtu_bytes = options.second_link->options().mtu_bytes});
    }
    worker::WorkerConfig config;
    config.engine = {.connections_max = options.connections_max,
                     .sent_records_max = 1024,
                     .received_runs_max = 1024};
    config.connection = options.connection;
    config.contexts_max = options.contexts_max;
    config.places = options.places;
    config.secret = {options.seed, ~options.seed};
    config.seed = options.seed;
    worker::StatsBinding stats{
        .worker = stats_.get(), .rows = {rows_.get(), row_count_}, .clients = client_rows_};
    for (uint32_t i = 0; i < options.domains; ++i) {
      stats.domain_rows.push_back({&domain_row(i, 0), row_count_});
      stats.domain_clients.push_back(std::span(domain_client_rows_).subspan(16 * i, 16));
    }
    worker_ = std::make_unique<worker::Worker>(config, memory_, ports,
                                               std::span<const worker::RouteBinding>{}, stats);
  }

  worker::Worker& worker() { return *worker_; }
  io::sim::Memory& memory() { return memory_; }
  channel::WorkerStats& stats() { return *stats_; }
  channel::SessionRow& row(uint32_t index) { return rows_[index]; }
  channel::SessionRow& domain_row(uint32_t domain, uint32_t index) {
    return rows_[(1 + domain) * row_count_ + index];
  }
  /// Used rows, of all of them or of a domain's.
  uint32_t shown_sessions(int domain = -1) {
    uint32_t count = 0;
    channel::SessionView view;
    for (size_t i = 0; i < row_count_; ++i) {
      count += rows_[static_cast<size_t>(1 + domain) * row_count_ + i].read(view);
    }
    return count;
  }
  channel::ClientRow& client_row(uint32_t context) { return client_rows_[context]; }
  channel::ClientRow& domain_client_row(uint32_t domain, uint32_t context) {
    return domain_client_rows_[16 * domain + context];
  }
  uint64_t drops(Drop reason) const { return stats_->drops[static_cast<size_t>(reason)].get(); }

 private:
  static constexpr uint32_t kListenerRows = 4;

  static std::vector<InterfaceAddress> addresses_of(const HostOptions& options) {
    if (!options.addresses.empty()) return options.addresses;
    return {InterfaceAddress::of(IpAddress::v4(options.address), 24)};
  }

  io::sim::Memory memory_;
  std::unique_ptr<channel::WorkerStats> stats_;
  const size_t row_count_;
  std::unique_ptr<channel::SessionRow[]> rows_;
  std::vector<channel::ClientRow> client_rows_ = std::vector<channel::ClientRow>(16);
  std::vector<channel::ClientRow> domain_client_rows_;
  std::unique_ptr<worker::Worker> worker_;
};

}  // namespace lyre::test
