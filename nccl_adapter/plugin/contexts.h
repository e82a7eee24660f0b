#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/plugin/instance_registry.h"
#include "nccl_adapter/plugin/open_instance.h"
#include "nccl_adapter/settings.h"

/// The contexts of v11 on: one for each communicator, from its init to its finalize. NCCL inits the
/// plugin also for communicators that never use the network, and never finalizes one that is
/// aborted before its ranks have met. So a context may have no instance until its first listen() or
/// connect(); until then it holds nothing of the daemon.
/// Thread: any. The caller holds no instance's mutex.
namespace lyre::nccl_adapter {

class Contexts {
 public:
  /// Returns what NCCL gets: a number, as the address of a context that has ended may be that of
  /// another one.
  void* add(Prepared prepared);
  bool is_one(const void* context);
  /// *call: the use of the context's instance, which is opened if there is none; nullptr: the
  /// context has ended. Blocks as open_instance() does, and all threads that call it at the same
  /// time wait for the same attempt. Fails: kSystemError with a line that says why.
  nccl_abi::Result open(const void* context, InstanceCall* call);
  /// The context ends. Returns its instance; nullptr: it has none.
  Instance* remove(const void* context);
  bool is_empty();

 private:
  struct Context {
    Context(const Prepared& prepared, Instance* kept)
        : settings(prepared.settings), communicator(prepared.communicator), instance(kept) {}

    const Settings settings;
    const uint64_t communicator;
    std::atomic<uint64_t> failures{0};  ///< to open the instance; counted under the mutex
    std::mutex mutex;                   ///< guards what follows; held while the instance is opened
    Instance* instance;                 ///< nullptr: there is none
    bool has_ended = false;
  };

  std::shared_ptr<Context> find(const void* context);

  std::mutex mutex_;  ///< guards what follows; nothing waits for a daemon under it
  std::map<const void*, std::shared_ptr<Context>> contexts_;
  uintptr_t last_ = 0;
};

/// Of this process. Never destroyed, as instance_registry().
Contexts& contexts();

}  // namespace lyre::nccl_adapter
