#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "daemon/base/owned_fd.h"
#include "daemon/base/shared_memory.h"
#include "daemon/workers/core_keeper.h"
#include "daemon/workers/idle_policy.h"
#include "daemon/workers/worker_set.h"
#include "stack/channel/stats.h"
#include "stack/worker/worker.h"

namespace lyre {

/// What one worker thread runs.
struct WorkerSeat {
  worker::Worker* worker = nullptr;
  channel::WorkerStats* stats = nullptr;
  uint32_t core = 0;
  std::vector<uint32_t> other_cores;  ///< where it may run while another thread computes on `core`
  std::vector<io::PacketIo*> queues;  ///< one of each port
};

struct ThreadOptions {
  IdleMode idle = IdleMode::kAdaptive;
  Nanos spin;
  Nanos awake;
  std::function<Status()> on_start;  ///< called by each thread before its first turn
  std::function<void()> on_end;      ///< and after its last
};

/// One thread for each worker, pinned to its core, and the eventfds that wake it.
/// Thread: the control thread.
/// Owner: borrows workers and stats until stop().
class WorkerThreads : public WorkerSet {
 public:
  /// Makes the eventfds; no thread runs yet. Fails: no memory, no descriptor.
  static Result<std::unique_ptr<WorkerThreads>> create(std::span<const WorkerSeat> seats,
                                                       ThreadOptions options);
  ~WorkerThreads() override;

  /// Fails: a thread cannot be made, pinned or registered; none runs then.
  Status start();
  /// Ends every thread after its current turn.
  void stop();

  uint32_t count() const override { return static_cast<uint32_t>(threads_.size()); }
  bool try_post(uint32_t worker, const worker::Command& command) override;
  bool try_take(uint32_t worker, worker::Reply& out) override;
  Status watch(uint32_t worker, int ring_fd) override;
  void unwatch(uint32_t worker, int ring_fd) override;

  /// Waits for the descriptors of queues, too, which may have changed.
  void watch_queues();

  /// Stops every thread between two turns until resume(). False when a thread does not end its turn
  /// in time; all continue then.
  bool pause();
  void resume();
  /// Threads that start() makes from now on stop before their first turn, until resume().
  void hold();
  /// While paused, for a process that goes on with the clients: from now on each client rings for
  /// what it submits, because only this process can tell it not to. `are_called` false: it has its
  /// worker here again.
  void call_clients(bool are_called);

  /// WorkerDoorbell of each worker, for clients: read-only.
  int doorbells_fd() const { return doorbells_reader_.get(); }
  /// Wakes a worker, for other workers. Valid as long as this object.
  worker::Doorbell bell(uint32_t worker) const;
  /// Turns that a worker has made so far.
  uint64_t turns(uint32_t worker) const;
  /// By worker. Valid as long as this object; without a thread nothing is known, and pin() must not
  /// be called.
  std::vector<KeptCore> kept_cores();

 private:
  class Thread;

  WorkerThreads() = default;

  ThreadOptions options_;
  SharedMemory doorbells_;
  OwnedFd doorbells_reader_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace lyre
