#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/comm/comm.h"
#include "nccl_adapter/daemon_link/attachment.h"
#include "nccl_adapter/daemon_link/progress_thread.h"
#include "nccl_adapter/daemon_link/region_cache.h"
#include "nccl_adapter/observe/telemetry.h"
#include "nccl_adapter/protocol/handle.h"
#include "nccl_adapter/protocol/hello.h"
#include "nccl_adapter/settings.h"
#include "nccl_adapter/transport/acceptor.h"

namespace lyre::nccl_adapter {

class RecvComm;
class SendComm;

/// One attachment to the daemon and everything NCCL made through it: one per communicator from ABI
/// v11 on, one per process before. A daemon that is lost is looked for, and every comm resumed.
/// Thread: any, one at a time: hold mutex() around every call, constructor and destructor excepted.
/// Fails: when the daemon stays away, every later call returns kSystemError; one line says so.
class Instance {
 public:
  /// Fails: nullptr with a line in the log. Blocks at most as lyre_context_open() does.
  /// `communicator`: NCCL's number for what it is used for, where NCCL tells; for people.
  static std::unique_ptr<Instance> open(const Settings& settings, uint64_t communicator);
  /// Says goodbye on what is still open, gives it a bounded time to go out, and detaches.
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  std::mutex& mutex() { return mutex_; }
  /// nullptr while the daemon is lost.
  lyre_context* context() const { return attachment_->context(); }
  const Settings& settings() const { return settings_; }
  const std::string& host() const { return host_; }
  uint32_t pid() const { return pid_; }
  uint64_t communicator() const { return communicator_; }
  RegionCache& regions() { return regions_; }
  Telemetry& telemetry() { return telemetry_; }
  const std::vector<lyre_port>& ports() const { return attachment_->ports(); }
  /// How many streams a new comm on that port gets.
  size_t stream_count(size_t device) const;
  /// The clock, as of one of the last few calls of progress().
  int64_t now_ns() const { return now_ns_; }
  bool is_attached() const { return !is_daemon_dead_ && !is_daemon_lost_; }
  bool is_daemon_lost() const { return is_daemon_lost_; }
  /// No comm or listen comm is left.
  bool is_idle() const;

  nccl_abi::Result listen(int dev, HandleBytes handle, ListenComm** out);
  /// *out stays nullptr with kSuccess until the peer has answered: call again.
  nccl_abi::Result connect(int dev, HandleBytes handle, Comm** out);
  nccl_abi::Result accept(ListenComm* listen_comm, Comm** out);
  void close_listen(ListenComm* listen_comm);
  /// The end of a comm, after Comm::begin_close() and as long a wait as the caller likes.
  void close(Comm* comm);

  /// Hears what the daemon has to say and lets everybody concerned act on it. Never blocks, but for
  /// a daemon that is there again and slow to answer.
  nccl_abi::Result progress();
  /// Sleeps for a moment, between looks of whoever has to wait.
  void pause();
  /// True, and the daemon is looked for from then on, when `code` means that it is gone.
  bool note_daemon_error(int code);

  // ---- For the acceptor ----

  RecvComm* find_receiver(const Nonce& comm_id) const;
  RecvComm* add_receiver(const Hello& hello, const std::string& address);
  /// nullptr: no such comm. The caller tells the peer.
  const Departed* find_departed(const Nonce& comm_id);

 private:
  Instance(const Settings& settings, uint64_t communicator);

  nccl_abi::Result check_device(int dev) const;
  nccl_abi::Result check_handle(HandleBytes bytes, Handle* out) const;
  SendComm* find_connecting(int dev, HandleBytes bytes, const Handle& handle);
  nccl_abi::Result await_attached();
  void hear();
  void detach();
  void look_for_daemon();
  void tick();
  void show();
  void progress_if_idle();
  void remember_departed(RecvComm& comm);
  void await_last_words();
  void adopt(std::unique_ptr<Comm> comm);
  void erase(Comm* comm);

  std::mutex mutex_;
  Settings settings_;
  uint64_t communicator_;
  std::unique_ptr<Attachment> attachment_;
  std::string host_;
  uint32_t pid_;
  int64_t now_ns_;
  uint32_t idle_looks_ = 0;
  int64_t ticked_ns_ = 0;
  int64_t shown_ns_ = 0;
  Telemetry telemetry_;
  RegionCache regions_;
  bool is_daemon_lost_ = false;
  bool is_detached_ = false;  ///< nothing refers to the lost context any more
  bool is_daemon_dead_ = false;
  uint64_t last_note_;
  std::unique_ptr<Acceptor> acceptor_;  ///< made by the first listen()
  size_t listen_count_ = 0;
  std::unordered_map<uint64_t, SendComm*> connecting_;  ///< by note in the handle
  std::unordered_map<Comm*, std::unique_ptr<Comm>> comms_;
  std::map<Nonce, RecvComm*> receivers_;
  std::map<Nonce, Departed> departed_;
  std::deque<Nonce> departed_order_;
  std::unique_ptr<ProgressThread> progress_thread_;  ///< last: it works with all of the above
};

}  // namespace lyre::nccl_adapter
