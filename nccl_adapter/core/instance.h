#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/core/comm.h"
#include "nccl_adapter/core/connector.h"
#include "nccl_adapter/core/handle.h"
#include "nccl_adapter/core/reception.h"
#include "nccl_adapter/core/settings.h"

namespace lyre::nccl_adapter {

/// One attachment to the daemon and everything NCCL made through it: one per communicator from ABI
/// v11 on, one per process before.
/// Thread: any, one at a time: hold mutex() around every call, constructor and destructor excepted.
/// Fails: a daemon that died makes every later call return kSystemError; one line says so.
class Instance {
 public:
  /// Fails: nullptr with a line in the log. Blocks at most as lyre_context_open() does.
  static std::unique_ptr<Instance> open(const Settings& settings);
  /// Says goodbye on what is still open, gives it a bounded time to go out, and detaches.
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  std::mutex& mutex() { return mutex_; }
  lyre_context* context() const { return context_; }
  const Settings& settings() const { return settings_; }
  const std::string& host() const { return host_; }
  const std::vector<lyre_port>& ports() const { return ports_; }
  bool is_daemon_dead() const { return is_daemon_dead_; }
  /// No comm, listen comm or connect is left.
  bool is_idle() const;

  nccl_abi::Result listen(int dev, HandleBytes handle, ListenComm** out);
  /// *out stays nullptr with kSuccess until the peer has answered: call again.
  nccl_abi::Result connect(int dev, HandleBytes handle, Comm** out);
  nccl_abi::Result accept(ListenComm* listen_comm, Comm** out);
  void close_listen(ListenComm* listen_comm);
  /// The end of a comm, after Comm::begin_close() and as long a wait as the caller likes.
  void close(Comm* comm);

  /// Hears what the daemon has to say and lets everybody concerned act on it. Never blocks.
  nccl_abi::Result progress();
  /// True, and one line in the log the first time, when `code` means that the daemon is gone.
  bool note_daemon_error(int code);

 private:
  Instance(const Settings& settings, lyre_context* context);

  nccl_abi::Result check_device(int dev) const;
  nccl_abi::Result check_handle(HandleBytes bytes, Handle* out) const;
  Connector* find_connector(int dev, HandleBytes bytes, const Handle& handle);

  std::mutex mutex_;
  Settings settings_;
  lyre_context* context_;
  std::string host_;
  std::vector<lyre_port> ports_;
  bool is_daemon_dead_ = false;
  uint64_t last_note_;
  std::vector<std::unique_ptr<Reception>> receptions_;  ///< by device, made by its first listen()
  size_t listen_count_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Connector>> connectors_;  ///< by note in the handle
  std::unordered_map<Comm*, std::unique_ptr<Comm>> comms_;
};

}  // namespace lyre::nccl_adapter
