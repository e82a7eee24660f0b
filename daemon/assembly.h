#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <span>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/control/context_registry.h"
#include "daemon/control/control_servers.h"
#include "daemon/memory/mapping_opener.h"
#include "daemon/ports/link_watch.h"
#include "daemon/ports/port_set.h"
#include "daemon/stats/domain_stats.h"
#include "daemon/stats/stats_segment.h"
#include "daemon/workers/worker_threads.h"
#include "stack/io/backend.h"
#include "stack/link/neighbour_board.h"
#include "stack/worker/routing/inter_worker_rings.h"
#include "stack/worker/worker.h"

namespace lyre {

/// Makes the daemon's parts in the order of their dependencies, and ends them in the reverse order.
/// Thread: the control thread, which runs `io`. Owner: borrows the configuration.
class Assembly {
 public:
  /// What the control thread has; borrowed.
  struct ControlThread {
    boost::asio::io_context& io;
    MappingOpener& mappings;
  };

  /// `reply_fd`: an eventfd to which workers write when they have replied; borrowed.
  /// Fails: one line that says what is missing.
  static Result<std::unique_ptr<Assembly>> make(const Config& config,
                                                std::unique_ptr<io::Backend> backend,
                                                const ControlThread& control, int reply_fd);
  /// The same in two steps. The first makes what needs no port; another process may still have
  /// those.
  static Result<std::unique_ptr<Assembly>> prepare(const Config& config,
                                                   std::unique_ptr<io::Backend> backend);
  /// What an earlier process leaves to this one.
  struct Heritage {
    std::vector<PortRecord> ports;                             ///< by port
    SipKey secret;                                             ///< WorkerConfig::secret
    std::vector<std::vector<IpAddress>> verified_addresses{};  ///< RegistryRecord has them
  };
  /// Between the two steps: opens some ports (bit n: port n) before the other process stops.
  Status open_ports_early(const Heritage& heritage, uint32_t which);
  /// The second step. `heritage`: null: there is none.
  Status complete(const ControlThread& control, int reply_fd, const Heritage* heritage = nullptr);
  ~Assembly();

  /// Opens the control socket. Clients are served when `io` runs. Fails: as ControlServer::open().
  Status open() { return control_.open(); }
  /// Starts the workers. Fails: as WorkerThreads::start().
  Status start() { return threads_->start(); }

  bool has_hugepages() const { return backend_->has_hugepages(); }
  bool uses_physical_addresses() const { return backend_->uses_physical_addresses(); }
  PortSet& ports() { return *ports_; }
  StatsSegment& stats() { return stats_; }
  WorkerThreads& threads() { return *threads_; }
  ContextRegistry& registry() { return *registry_; }
  LinkWatch& links() { return *links_; }
  ControlServers& control() { return control_; }
  worker::Worker& worker(uint32_t index) { return *workers_[index]; }
  std::span<const worker::DomainRules> rules() const { return rules_; }
  const SipKey& secret() const { return secret_; }
  /// What domains are shown of ports and clients.
  void refresh_domain_stats() const;

 private:
  Assembly(const Config& config, std::unique_ptr<io::Backend> backend);

  uint32_t worker_count() const { return static_cast<uint32_t>(config_.cores.size()); }
  Status make_memories();
  int memory_node_of(uint32_t worker) const;
  std::vector<uint32_t> other_cores_of(uint32_t worker) const;
  Status open_ports(std::span<const PortRecord> earlier, uint32_t which = PortSet::kAll);
  std::vector<io::PacketMemory*> memories() const;
  Status make_stats();
  StatsOptions stats_options() const;
  worker::StatsBinding stats_binding(uint32_t worker) const;
  worker::PlaceLimits place_limits() const;
  worker::WorkerConfig worker_config(int reply_fd);
  void make_rings();
  void make_workers(int reply_fd);
  Status make_threads();
  void make_registry();
  PortMapping port_mapping();
  void make_rules();
  Status make_domain_stats();
  DaemonFacts facts();
  DaemonFacts facts_of(size_t domain);
  void make_control(const ControlThread& control);
  void add_control(const ControlThread& control, DaemonFacts facts, ControlOptions options);

  const Config& config_;
  /// Wall clock minus monotonic clock at the start, for workers and readers of the stats segment.
  const int64_t unix_offset_ns_;
  SipKey secret_;
  // Members end in reverse: the backend outlives all that it made, and clients' memory, with its
  // window (Backend::set_region_window()), outlives the ports that may read it.
  std::unique_ptr<io::Backend> backend_;
  std::unique_ptr<ContextRegistry> registry_;
  StatsSegment stats_;
  std::vector<worker::DomainRules> rules_;  ///< by domain
  std::vector<DomainStats> domain_stats_;   ///< by domain; none where there is one
  std::vector<std::unique_ptr<io::PacketMemory>> memories_;
  std::vector<OwnedFd> pool_readers_;
  std::unique_ptr<PortSet> ports_;
  std::unique_ptr<worker::InterWorkerRings> rings_;        ///< none where there is one worker
  std::unique_ptr<link::NeighbourBoard> neighbour_board_;  ///< the same
  std::vector<std::unique_ptr<worker::Worker>> workers_;
  std::unique_ptr<WorkerThreads> threads_;
  std::unique_ptr<LinkWatch> links_;
  const std::shared_ptr<ForeignCloser> closer_ = std::make_shared<ForeignCloser>();
  ControlServers control_;
  std::atomic<bool> was_told_of_copies_{false};  ///< the warning is written once
};

}  // namespace lyre
