#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/comm/comm.h"
#include "nccl_adapter/comm/receivers.h"
#include "nccl_adapter/daemon_link/attachment.h"
#include "nccl_adapter/daemon_link/clock_look.h"
#include "nccl_adapter/daemon_link/connecting.h"
#include "nccl_adapter/daemon_link/progress_thread.h"
#include "nccl_adapter/daemon_link/region_cache.h"
#include "nccl_adapter/daemon_link/rest.h"
#include "nccl_adapter/observe/telemetry.h"
#include "nccl_adapter/protocol/handle.h"
#include "nccl_adapter/settings.h"
#include "nccl_adapter/transport/acceptor.h"
#include "nccl_adapter/transport/environment.h"
#include "nccl_adapter/transport/verbs/devices.h"

namespace lyre::nccl_adapter {

class SendComm;

/// One attachment to the daemon and everything NCCL made through it: one per communicator from ABI
/// v11 on, one per process before. A daemon that is lost is looked for, and every comm resumed.
/// Thread: any, one at a time: hold mutex() around every call, constructor and destructor excepted.
/// Fails: when the daemon stays away, every later call returns kSystemError; one line says so.
class Instance final : public Environment, private CommOwner {
 public:
  /// `communicator`: see Environment. Fails and blocks as Attachment::open().
  static std::unique_ptr<Instance> open(const Settings& settings, uint64_t communicator,
                                        int* failure);
  /// Says goodbye on what is still open, gives it a bounded time to go out, and detaches.
  ~Instance();

  std::mutex& mutex() { return mutex_; }
  lyre_context* context() const override { return attachment_->context(); }
  const std::vector<lyre_port>& ports() const override { return attachment_->ports(); }
  uint16_t listen_port() const override { return acceptor_ != nullptr ? acceptor_->port() : 0; }
  StreamCount& stream_count(size_t device) override { return stream_counts_[device]; }
  Shortage& shortage() override;
  bool note_daemon_error(int code) override;
  Memory* take_memory(const void* data, size_t bytes) override;
  void give_back_memory(Memory* memory) override;
  /// Shows in `lyre comms` what is known of RDMA ports, as of now.
  void show_verbs(const std::string& summary) { telemetry_.show_verbs(summary); }
  /// NCCL has no comm of it, and no listen comm with which an accept could succeed.
  bool is_idle() const;
  /// NCCL is done with the communicator. False: a comm that connect() or accept() gave out is open,
  /// which another communicator may use. What is half open, and a listen comm, is not waited for:
  /// NCCL does not close it.
  bool finalize();
  /// finalize() returned true, or what was still in use then is closed. listen(), connect() and
  /// accept() must not be called any more.
  bool is_over() const;

  nccl_abi::Result listen(int dev, HandleBytes handle, ListenComm** out);
  /// *out stays nullptr with kSuccess until the peer has answered: call again. Fails: also where
  /// what it began was closed, with this instance or the one before.
  nccl_abi::Result connect(int dev, HandleBytes handle, Comm** out);
  /// From now on, what connect() began and is not asked for during kConnectAbandonedNs is closed:
  /// for the process's instance, as v8 to v10 have no finalize that would end it.
  void expect_no_finalize() { closes_abandoned_ = true; }
  nccl_abi::Result accept(ListenComm* listen_comm, Comm** out);
  void close_listen(ListenComm* listen_comm);
  /// The end of a comm, after Comm::begin_close() and as long a wait as the caller likes.
  void close(Comm* comm);

  /// Processes events of the daemon and dispatches them to comms, and wakes the workers. Never
  /// blocks, except for a daemon that is there again and slow to answer.
  nccl_abi::Result progress();
  /// The same without waking the workers, for an isend() or irecv(): NCCL posts several in a row
  /// and then tests them, and a worker on NCCL's core would interrupt it for each.
  nccl_abi::Result progress_in_series();
  /// Workers that sleep see what was submitted since the last call.
  void wake_workers() { lyre_wake_workers(context()); }
  /// Like progress_in_series(), for a test() of `request`. NCCL tests its requests in rounds and
  /// yields the core after a round that found nothing. The call that finds the end of such a round
  /// waits where another thread computes on this core, or where the host is crowded, messages are
  /// large and the yields reach no thread (Rest). The first call after a small send does so, too
  /// (SmallSends), and where there is no reason to wait it yields: the worker or the peer's rank
  /// may wait for this core. Meanwhile `lock`, which holds mutex(), is free.
  nccl_abi::Result progress_in_round(const Request* request, std::unique_lock<std::mutex>& lock);
  void begin_round() {
    round_began_with_ = nullptr;
    rest_.begin_anew();
  }

 private:
  enum class Daemon { kAttached, kLost, kDead };
  /// Where a comm is kept, and where it is shown.
  struct Place {
    uint64_t number = 0;                 ///< of comms_
    nccl_abi::CommSlot* slot = nullptr;  ///< nullptr: nowhere
  };

  Instance(const Settings& settings, uint64_t communicator);

  nccl_abi::Result check_device(int dev) const;
  nccl_abi::Result check_handle(HandleBytes bytes, Handle* out) const;
  SendComm* begin_connect(int dev, HandleBytes bytes, const Handle& handle);
  nccl_abi::Result await_acceptor();
  bool open_acceptor();
  /// Whether it found events.
  bool poll_daemon();
  void detach();
  void look_for_daemon();
  void look_by_clock();
  void end_tick();
  void progress_if_idle();
  void await_last_words(int64_t most_ns);
  void set_daemon(Daemon daemon);
  void adopt(std::unique_ptr<Comm> comm) override;
  SendComm* find_sender(const Nonce& id) override;

  std::mutex mutex_;
  std::unique_ptr<VerbsDevices> devices_;  ///< outlive the comms
  std::unique_ptr<Attachment> attachment_;
  uint32_t idle_looks_ = 0;
  uint32_t busy_calls_ = 0;                    ///< calls in a row that found events
  const Request* round_began_with_ = nullptr;  ///< its first test() without events
  Rest rest_;
  ClockLook look_;
  uint64_t shortages_;  ///< for so many of the process's it has made room
  uint64_t random_;
  Telemetry telemetry_;
  std::vector<StreamCount> stream_counts_;  ///< by device
  RegionCache regions_;
  Daemon daemon_ = Daemon::kAttached;
  bool is_detached_ = false;  ///< nothing refers to the lost context any more
  bool is_finalized_ = false;
  bool was_unused_ = false;  ///< when it was finalized
  bool closes_abandoned_ = false;
  Receivers receivers_;
  std::unique_ptr<Acceptor> acceptor_;  ///< made by the first listen() or connect()
  Connecting connecting_;
  uint64_t adopted_ = 0;
  std::map<uint64_t, std::unique_ptr<Comm>> comms_;  ///< in order of making
  std::unordered_map<Comm*, Place> places_;
  std::set<std::string> unheard_hosts_;              ///< of comms closed without an answer
  std::unordered_set<const Comm*> given_out_;        ///< NCCL has them, and closes them
  std::unique_ptr<ProgressThread> progress_thread_;  ///< last: it works with all of the above
};

}  // namespace lyre::nccl_adapter
