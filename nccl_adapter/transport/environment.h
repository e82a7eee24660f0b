#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/settings.h"
#include "nccl_adapter/transport/attentive_clock.h"
#include "nccl_adapter/transport/shortage.h"
#include "nccl_adapter/transport/small_sends.h"
#include "nccl_adapter/transport/stream_count.h"

namespace lyre::nccl_adapter {

class VerbsDevices;

/// Memory that NCCL registered, as the daemon knows it.
struct Memory {
  const void* data = nullptr;
  size_t bytes = 0;
  lyre_region* region = nullptr;  ///< nullptr: bytes of it have to be copied
  uint32_t users = 0;
  bool is_exposed = false;  ///< of a receiving comm: queue pairs of its sender may write there
};

/// What comms and the acceptor know of the instance that they belong to: the time, this process,
/// and the attachment to the daemon, which may be lost and found again. What is asked for often is
/// no virtual call.
/// Thread: under the instance's lock.
class Environment {
 public:
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /// The time that peer timeouts use, as of one of the last few looks at the clock.
  int64_t now_ns() const { return clock_.now_ns(); }
  const AttentiveClock& clock() const { return clock_; }
  const Settings& settings() const { return settings_; }
  const std::string& host() const { return host_; }
  uint32_t pid() const { return pid_; }
  /// NCCL's number for what the instance is used for, where NCCL tells; for people.
  uint64_t communicator() const { return communicator_; }

  /// The RDMA devices of this host; nullptr: none are used.
  VerbsDevices* verbs() const { return verbs_; }

  /// Of all comms.
  SmallSends& small_sends() { return small_sends_; }

  bool is_attached() const { return is_attached_; }
  /// The daemon was given up, or disconnected this process: every call fails from now on.
  /// Thread: any. Relaxed: a lone flag, which is never cleared.
  bool is_dead() const { return is_dead_.load(std::memory_order_relaxed); }
  /// nullptr while the daemon is lost.
  virtual lyre_context* context() const = 0;
  /// The daemon's, as of the first attach.
  virtual const std::vector<lyre_port>& ports() const = 0;
  /// Where peers can reach this process; 0: it does not listen.
  virtual uint16_t listen_port() const = 0;
  /// How many streams the comms of that port need. Owner: the environment.
  virtual StreamCount& stream_count(size_t device) = 0;
  /// Of this process: all its environments share it.
  virtual Shortage& shortage() = 0;
  /// True, and the daemon is looked for from then on, when `code` means that it is gone.
  virtual bool note_daemon_error(int code) = 0;

  /// Registers memory with the daemon, once for all comms that use it. Owner: the instance;
  /// give_back_memory() once for each take_memory().
  virtual Memory* take_memory(const void* data, size_t bytes) = 0;
  /// After the last user gave it back, it is not read any more.
  virtual void give_back_memory(Memory* memory) = 0;

 protected:
  Environment(const Settings& settings, std::string host, uint32_t pid, uint64_t communicator,
              int64_t monotonic_ns)
      : settings_(settings),
        host_(std::move(host)),
        pid_(pid),
        communicator_(communicator),
        clock_(monotonic_ns) {}
  ~Environment() = default;

  Settings settings_;
  std::string host_;
  uint32_t pid_;
  uint64_t communicator_;
  AttentiveClock clock_;
  SmallSends small_sends_;
  bool is_attached_ = true;
  std::atomic<bool> is_dead_{false};
  VerbsDevices* verbs_ = nullptr;
};

}  // namespace lyre::nccl_adapter
