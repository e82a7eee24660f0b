#pragma once

#include <memory>
#include <vector>

#include "tests/support/two_workers.h"

namespace lyre::test {

/// A host with several workers on one port of the simulated wire, whose hash is unknown to them;
/// and a client and an application for each worker.
class ManyWorkers {
 public:
  ManyWorkers(io::sim::Link& link, int end, uint32_t count, uint32_t rx_slots = 512)
      : end_(end), rings(count) {
    for (uint32_t i = 0; i < count; ++i) add(link, i, count, rx_slots);
  }

  uint32_t address() const { return end_ == 0 ? 0x0a090001 : 0x0a090002; }
  size_t poll(Nanos now) {
    size_t work = 0;
    for (const auto& seat : seats) work += seat->worker->poll_once(now) + seat->app->step();
    return work;
  }
  Nanos next_deadline() const {
    Nanos next = kNever;
    for (const auto& seat : seats) next = earlier(next, seat->worker->next_deadline());
    return next;
  }
  size_t stream_count() const {
    size_t count = 0;
    for (const auto& seat : seats) count += seat->app->stream_count();
    return count;
  }
  uint64_t sum(channel::StatCounter channel::WorkerStats::*counter) const {
    uint64_t total = 0;
    for (const auto& seat : seats) total += ((*seat->stats).*counter).get();
    return total;
  }

  struct Seat {
    std::unique_ptr<io::sim::Memory> memory;
    std::unique_ptr<channel::WorkerStats> stats;
    std::unique_ptr<worker::Worker> worker;
    std::unique_ptr<ChannelClient> client;
    std::unique_ptr<PatternApp> app;
  };

 private:
  int end_;

 public:
  worker::InterWorkerRings rings;
  std::vector<std::unique_ptr<Seat>> seats;

 private:
  void add(io::sim::Link& link, uint32_t index, uint32_t count, uint32_t rx_slots) {
    auto seat = std::make_unique<Seat>();
    seat->memory = std::make_unique<io::sim::Memory>(io::sim::MemoryOptions{
        .rx_slots = rx_slots, .frame_bytes = link.options().mtu_bytes + 64, .tx_packets = 256});
    seat->stats.reset(new channel::WorkerStats());
    const worker::PortBinding port{
        .io = &link.add_queue(end_, *seat->memory),
        .addresses = {InterfaceAddress::of(IpAddress::v4(address()), 24)},
        .mtu_bytes = link.options().mtu_bytes};
    worker::WorkerConfig config;
    config.index = index;
    config.worker_count = count;
    config.rings = count > 1 ? &rings : nullptr;
    config.engine = {.connections_max = 128, .sent_records_max = 4096, .received_runs_max = 4096};
    config.secret = {7, address()};
    config.seed = address() + index;
    seat->worker = std::make_unique<worker::Worker>(config, *seat->memory, std::span(&port, 1),
                                                    std::span<const worker::RouteBinding>{},
                                                    worker::StatsBinding{seat->stats.get(), {}});
    seat->client = std::make_unique<ChannelClient>(*seat->worker, 0);
    seat->app = std::make_unique<PatternApp>(*seat->client);
    seat->app->pool = seat->memory->rx_memory();
    seat->app->receive_seed = 1;
    seats.push_back(std::move(seat));
  }
};

}  // namespace lyre::test
