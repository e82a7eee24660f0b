#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/config.h"
#include "daemon/context_registry.h"
#include "daemon/control_server.h"
#include "daemon/device_counters.h"
#include "daemon/link_watch.h"
#include "daemon/notifier.h"
#include "daemon/stats_segment.h"
#include "daemon/worker_threads.h"
#include "stack/io/dpdk/environment.h"
#include "stack/worker/routing/inter_worker_rings.h"
#include "stack/worker/worker.h"

namespace lyre {

/// The running daemon: DPDK, ports, workers, their threads and the control socket, put together in
/// this order and taken apart in the other.
/// Thread: the control thread, which runs `io`.
class Launcher {
 public:
  /// Fails: one line that says what could not be had.
  static Result<std::unique_ptr<Launcher>> start(const Config& config, boost::asio::io_context& io);
  ~Launcher();

  /// Takes no more clients, has every worker reset its sessions, and stops `io` once they have, or
  /// when they took too long.
  void begin_stop();

 private:
  Launcher(const Config& config, boost::asio::io_context& io);

  Status open_environment();
  Status make_memories();
  Status open_ports();
  Status make_stats();
  Status make_workers();
  Status make_threads();
  Status open_control();
  WorkerSeat seat_of(uint32_t index);
  PortMapping port_mapping();
  DaemonFacts facts();
  void join_groups(uint32_t port);
  void look_for_conflicts(Nanos now);
  std::vector<Cidr> addresses_of(uint32_t port) const;
  std::vector<channel::PortInfo> port_infos() const;
  void announce();

  void schedule_replies();
  void wait_for_replies();
  void take_replies();
  void look_at_replies();
  void make_link_watch();
  void make_device_counters();
  void watch_links();
  void schedule_housekeeping();
  void keep_house();
  void restart_ports();
  bool workers_progress();
  void finish_stop();
  void give_up_on_workers();

  const Config config_;
  boost::asio::io_context& io_;
  boost::asio::steady_timer replies_timer_;
  boost::asio::posix::stream_descriptor replies_bell_;  ///< rung by the workers
  boost::asio::steady_timer links_timer_;
  boost::asio::steady_timer house_timer_;
  Notifier notifier_;

  // Members end in reverse: the environment outlives all that DPDK made, and clients' memory
  // outlives the ports that may read it.
  std::unique_ptr<io::dpdk::Environment> environment_;
  std::unique_ptr<ContextRegistry> registry_;
  StatsSegment stats_;
  std::vector<std::unique_ptr<io::PacketMemory>> memories_;
  std::vector<OwnedFd> pool_readers_;
  std::vector<std::unique_ptr<io::dpdk::Port>> ports_;
  std::unique_ptr<worker::InterWorkerRings> rings_;  ///< none where there is one worker
  std::vector<std::unique_ptr<worker::Worker>> workers_;
  std::unique_ptr<WorkerThreads> threads_;
  std::unique_ptr<LinkWatch> links_;
  std::unique_ptr<DeviceCounters> device_counters_;
  std::unique_ptr<ControlServer> control_;

  std::vector<Expulsion> expulsions_;
  std::vector<uint64_t> turns_seen_;
  Nanos progress_seen_{0};
  Nanos keep_alive_due_{0};
  bool was_told_of_copies_ = false;  ///< said once: clients come and go
  uint64_t conflicts_seen_ = 0;
  Nanos conflicts_told_{0};
  Nanos stop_deadline_ = kNever;
};

}  // namespace lyre
