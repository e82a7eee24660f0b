#pragma once

#include <memory>
#include <vector>

#include "tests/support/two_workers.h"

namespace lyre::test {

struct ManyWorkersOptions {
  uint32_t rx_slots = 512;   ///< of each worker
  uint32_t local_ports = 0;  ///< from which opens choose; 0: as many as there are by default
  bool is_ipv6 = false;      ///< address() is one of IPv6
};

/// A host with several workers on one port of the simulated wire, whose hash is unknown to them;
/// and a client and an application for each worker.
class ManyWorkers {
 public:
  ManyWorkers(io::sim::Link& link, int end, uint32_t count, const ManyWorkersOptions& options = {})
      : link_(link),
        end_(end),
        options_(options),
        rings(new worker::InterWorkerRings(count)),
        board(new link::NeighbourBoard(kBoardKey, count)) {
    for (uint32_t i = 0; i < count; ++i) add(i, count);
  }

  /// Other workers go on in the place of all of these. False: they do not take their records.
  bool hand_over(Nanos now) {
    std::vector<record::Writer> records(seats.size());
    for (size_t i = 0; i < seats.size(); ++i) seats[i]->worker->write_handover(records[i]);
    const std::vector<IpAddress> verified = seats[0]->worker->verified_addresses(0);
    for (const auto& seat : seats) seat->worker.reset();
    link_.close_driver(end_);
    const auto count = static_cast<uint32_t>(seats.size());
    rings.reset(new worker::InterWorkerRings(count));
    board.reset(new link::NeighbourBoard(kBoardKey, count));
    std::vector<io::sim::Memory*> memories;
    for (const auto& seat : seats) {
      seat->memory_before = std::move(seat->memory);
      seat->memory = make_memory();
      memories.push_back(seat->memory.get());
    }
    link_.bring_back(end_, memories);
    bool is_good = true;
    for (uint32_t i = 0; i < count; ++i) {
      Seat& seat = *seats[i];
      seat.worker = make_worker(seat, i, count, verified);
      std::vector<worker::Command> clients;
      seat.client->describe_memory(clients);
      seat.client->move_to(*seat.worker);
      record::Reader in(records[i].bytes());
      is_good = seat.worker->take_over(clients, in, now) && in.is_at_end() && is_good;
    }
    while (is_good && !try_claim_all()) {
    }
    return is_good;
  }

  IpAddress address() const {
    const auto last = static_cast<uint8_t>(1 + end_);
    return options_.is_ipv6 ? IpAddress{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}}
                            : IpAddress::v4(0x0a090000u + last);
  }
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

  uint64_t drops(Drop reason) const {
    uint64_t total = 0;
    for (const auto& seat : seats) {
      total += seat->stats->drops[static_cast<size_t>(reason)].get();
    }
    return total;
  }

  struct Seat {
    std::unique_ptr<io::sim::Memory> memory;
    std::unique_ptr<io::sim::Memory> memory_before;  ///< the client may have slots of it
    std::unique_ptr<channel::WorkerStats> stats;
    io::PacketIo* queue = nullptr;
    std::unique_ptr<worker::Worker> worker;
    std::unique_ptr<ChannelClient> client;
    std::unique_ptr<PatternApp> app;
  };

 private:
  static constexpr SipKey kBoardKey{3, 5};

  io::sim::Link& link_;
  int end_;
  ManyWorkersOptions options_;

 public:
  std::unique_ptr<worker::InterWorkerRings> rings;
  std::unique_ptr<link::NeighbourBoard> board;
  std::vector<std::unique_ptr<Seat>> seats;

 private:
  bool try_claim_all() {
    bool is_done = true;
    for (const auto& seat : seats) is_done = seat->worker->try_claim_all() && is_done;
    return is_done;
  }
  std::unique_ptr<io::sim::Memory> make_memory() const {
    return std::make_unique<io::sim::Memory>(
        io::sim::MemoryOptions{.rx_slots = options_.rx_slots,
                               .frame_bytes = link_.options().mtu_bytes + 64,
                               .tx_packets = 256});
  }
  /// `verified`: addresses that its predecessor has used.
  std::unique_ptr<worker::Worker> make_worker(Seat& seat, uint32_t index, uint32_t count,
                                              const std::vector<IpAddress>& verified) {
    seat.stats.reset(new channel::WorkerStats());
    const worker::PortBinding port{
        .io = seat.queue,
        .addresses = {options_.is_ipv6 ? InterfaceAddress{address(), 64}
                                       : InterfaceAddress::of(address(), 24)},
        .verified_addresses = verified,
        .mtu_bytes = link_.options().mtu_bytes};
    worker::WorkerConfig config;
    config.index = index;
    config.worker_count = count;
    config.rings = count > 1 ? rings.get() : nullptr;
    config.neighbour_board = count > 1 ? board.get() : nullptr;
    config.engine = {.connections_max = 128, .sent_records_max = 4096, .received_runs_max = 4096};
    if (options_.local_ports > 0) {
      config.ephemeral_port_last =
          static_cast<uint16_t>(config.ephemeral_port_first + options_.local_ports - 1);
    }
    const uint64_t seed = 0x0a090001u + static_cast<uint64_t>(end_);
    config.secret = {7, seed};
    config.seed = seed + index;
    return std::make_unique<worker::Worker>(config, *seat.memory, std::span(&port, 1),
                                            std::span<const worker::RouteBinding>{},
                                            worker::StatsBinding{seat.stats.get(), {}});
  }
  void add(uint32_t index, uint32_t count) {
    auto seat = std::make_unique<Seat>();
    seat->memory = make_memory();
    seat->queue = &link_.add_queue(end_, *seat->memory);
    seat->worker = make_worker(*seat, index, count, {});
    seat->client = std::make_unique<ChannelClient>(*seat->worker, 0);
    seat->app = std::make_unique<PatternApp>(*seat->client);
    seat->app->pool = seat->memory->rx_memory();
    seat->app->receive_seed = 1;
    seats.push_back(std::move(seat));
  }
};

}  // namespace lyre::test
