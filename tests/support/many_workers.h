#pragma once

#include <memory>
#include <vector>

#include "tests/support/two_workers.h"

namespace lyre::test {

/// A host with several workers on one port of the simulated wire, whose hash is unknown to them;
/// and a client and an application for each worker. `local_ports`: from which opens choose; 0: as
/// many as there are by default.
class ManyWorkers {
 public:
  ManyWorkers(io::sim::Link& link, int end, uint32_t count, uint32_t rx_slots = 512,
              uint32_t local_ports = 0)
      : link_(link),
        end_(end),
        rx_slots_(rx_slots),
        local_ports_(local_ports),
        rings(new worker::InterWorkerRings(count)),
        board(new link::NeighbourBoard(kBoardKey, count)) {
    for (uint32_t i = 0; i < count; ++i) add(i, count);
  }

  /// Other workers go on in the place of all of these. False: they do not take their records.
  bool hand_over(Nanos now) {
    std::vector<record::Writer> records(seats.size());
    for (size_t i = 0; i < seats.size(); ++i) seats[i]->worker->write_handover(records[i]);
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
      seat.worker = make_worker(seat, i, count);
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
  uint32_t rx_slots_;
  uint32_t local_ports_;

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
    return std::make_unique<io::sim::Memory>(io::sim::MemoryOptions{
        .rx_slots = rx_slots_, .frame_bytes = link_.options().mtu_bytes + 64, .tx_packets = 256});
  }
  std::unique_ptr<worker::Worker> make_worker(Seat& seat, uint32_t index, uint32_t count) {
    seat.stats.reset(new channel::WorkerStats());
    const worker::PortBinding port{
        .io = seat.queue,
        .addresses = {InterfaceAddress::of(IpAddress::v4(address()), 24)},
        .mtu_bytes = link_.options().mtu_bytes};
    worker::WorkerConfig config;
    config.index = index;
    config.worker_count = count;
    config.rings = count > 1 ? rings.get() : nullptr;
    config.neighbour_board = count > 1 ? board.get() : nullptr;
    config.engine = {.connections_max = 128, .sent_records_max = 4096, .received_runs_max = 4096};
    if (local_ports_ > 0) {
      config.ephemeral_port_last =
          static_cast<uint16_t>(config.ephemeral_port_first + local_ports_ - 1);
    }
    config.secret = {7, address()};
    config.seed = address() + index;
    return std::make_unique<worker::Worker>(config, *seat.memory, std::span(&port, 1),
                                            std::span<const worker::RouteBinding>{},
                                            worker::StatsBinding{seat.stats.get(), {}});
  }
  void add(uint32_t index, uint32_t count) {
    auto seat = std::make_unique<Seat>();
    seat->memory = make_memory();
    seat->queue = &link_.add_queue(end_, *seat->memory);
    seat->worker = make_worker(*seat, index, count);
    seat->client = std::make_unique<ChannelClient>(*seat->worker, 0);
    seat->app = std::make_unique<PatternApp>(*seat->client);
    seat->app->pool = seat->memory->rx_memory();
    seat->app->receive_seed = 1;
    seats.push_back(std::move(seat));
  }
};

}  // namespace lyre::test
