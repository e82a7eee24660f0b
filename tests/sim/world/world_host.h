#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/workers/standstills.h"
#include "stack/channel/stats.h"
#include "stack/io/sim/link.h"
#include "stack/io/sim/memory.h"
#include "stack/worker/worker.h"
#include "tests/sim/world/client.h"
#include "tests/sim/world/world_port.h"

namespace lyre::sim {

struct WorldHostOptions {
  uint32_t rx_slots = 512;
  uint32_t tx_packets = 256;
  uint32_t segment_bytes = UINT32_MAX;  ///< of client memory, as ports read it
  uint32_t connections_max = 256;
  uint32_t records_max = 1024;  ///< each of sent records and of received runs
  bool merge_received = true;
  uint32_t ephemeral_ports = 0;  ///< from kFirstDialPort on; 0: as a worker has them
  tcp::ConnectionConfig connection{};
  std::vector<ClientOptions> clients{ClientOptions{}};
};

/// What a host counted.
struct HostCounts {
  uint64_t timeouts = 0;  ///< of retransmission timers
  /// Segments outside the window that arrived. Where nothing is lost or sent twice, and without
  /// keep-alive, they are probes of a closed window, and FINs that were sent again.
  uint64_t probes_in = 0;
  uint64_t retransmitted_bytes = 0;  ///< tail probes are among them
  uint64_t frames_missed = 0;        ///< for want of room in the receive ring, or of a slot
  uint64_t standstills = 0;          ///< of which the worker was told

  HostCounts& operator+=(const HostCounts& other) {
    timeouts += other.timeouts;
    probes_in += other.probes_in;
    retransmitted_bytes += other.retransmitted_bytes;
    frames_missed += other.frames_missed;
    standstills += other.standstills;
    return *this;
  }
};

/// One host: the real worker on simulated packet memory, and its applications. Thread: one.
class WorldHost {
 public:
  WorldHost(io::sim::Link& link, int end, const WorldHostOptions& options, uint64_t seed,
            Dialogs& dialogs);

  /// Runs a random part of the host's work; `rng` draws the order and the gaps.
  size_t turn(Nanos now, Rng& rng, uint32_t lag_ppm);
  /// The host stands still: neither the worker nor a client has a turn until then. `is_asleep`: it
  /// began while the worker's thread slept, so the thread is late only from the end of that sleep.
  void stand_still(Nanos now, Nanos until, bool is_asleep);
  bool stands_still(Nanos now) const { return now < still_until_; }
  Nanos next_deadline(Nanos now) const;
  bool has_waiting_work(Nanos now) {
    return !stands_still(now) && (worker_->has_waiting_work() || port_.has_messages());
  }
  void crash(uint32_t client);
  /// Another worker with packet memory of its own goes on in the place of this one, which is gone,
  /// from the records that this one wrote. False: a command is under way.
  bool try_upgrade(Nanos now);
  /// Detaches all clients. Call turn() until is_detached().
  void detach_all();
  bool is_detached() const;
  bool is_idle() const;
  /// Empty when all resources are free. Destroys the worker: call only counts() and port()
  /// afterwards.
  std::string leftovers();
  const std::string& failure() const { return failure_; }
  HostCounts counts() const;
  /// A text that says what the host is waiting for.
  std::string describe();

  worker::Worker& worker() { return *worker_; }
  WorldPort& port() { return port_; }

 private:
  struct Seat {
    ClientOptions options;
    std::unique_ptr<Client> client;
    bool is_leaving = false;
    bool comes_back = false;
  };
  std::unique_ptr<io::sim::Memory> make_memory() const;
  std::unique_ptr<worker::Worker> make_worker(const std::vector<IpAddress>& verified);
  size_t poll_worker(Nanos now);
  void note_standstill(Nanos passed);
  void take_replies();
  void leave(Seat& seat);
  void on_detached(uint32_t index);

  io::sim::Link& link_;
  const int end_;
  const WorldHostOptions options_;
  const uint64_t seed_;
  Dialogs& dialogs_;
  /// The worker's is the last. Clients read from the others, too.
  std::vector<std::unique_ptr<io::sim::Memory>> memories_;
  WorldPort port_;
  std::unique_ptr<channel::WorkerStats> stats_;
  std::unique_ptr<worker::Worker> worker_;
  std::vector<Seat> seats_;
  Nanos turned_at_ = kNever;  ///< the worker's last turn; kNever: none yet
  Standstills standstills_;
  Nanos still_until_{0};
  HostCounts past_;  ///< of the workers before, and of the host
  std::string failure_;
};

}  // namespace lyre::sim
