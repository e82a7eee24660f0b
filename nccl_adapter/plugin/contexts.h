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

/// The contexts of v11 on: one for each communicator. NCCL inits the plugin also for communicators
/// that never use the network, and never finalizes one that is aborted before its ranks have met.
/// So a context may have no instance until its first listen() or connect(); until then it holds
/// nothing of the daemon. NCCL 2.28.3 to 2.28.6 go on with the context of a parent that they have
/// finalized, in a child that shares its resources: it stays as long as its instance.
/// Thread: any. The caller holds no instance's mutex.
namespace lyre::nccl_adapter {

class Contexts {
 public:
  /// Returns what NCCL gets: a number, as the address of a context that has ended may be that of
  /// another one.
  void* add(Prepared prepared);
  /// *call: the use of the context's instance, which is opened if there is none; nullptr: there is
  /// no such context any more. Blocks as open_instance() does, and all threads that call it at the
  /// same time wait for the same attempt. Fails: kSystemError with a line that says why.
  nccl_abi::Result open(const void* context, InstanceCall* call);
  /// Returns its instance; nullptr: there is none to finalize.
  Instance* finalize(const void* context);
  /// To be called before the registry ends the instance.
  void forget(const Instance* instance);
  /// Whether there is one that NCCL has not finalized.
  bool has_live();

 private:
  struct Context {
    Context(const Prepared& prepared, Instance* kept)
        : settings(prepared.settings), communicator(prepared.communicator), instance(kept) {}

    const Settings settings;
    const uint64_t communicator;
    std::atomic<uint64_t> failures{0};  ///< to open the instance; counted under the mutex
    std::mutex mutex;                   ///< guards what follows; held while the instance is opened
    Instance* instance;                 ///< nullptr: there is none
    bool is_finalized = false;
  };

  std::shared_ptr<Context> find_live(const void* context);
  nccl_abi::Result open_live(Context& context, InstanceCall* call);

  std::mutex mutex_;  ///< guards what follows, taken after a context's; nothing waits under it
  std::map<const void*, std::shared_ptr<Context>> live_;
  std::map<const void*, Instance*> finalized_;  ///< those whose instance has not ended
  uintptr_t last_ = 0;
};

/// Of this process. Never destroyed, as instance_registry().
Contexts& contexts();

}  // namespace lyre::nccl_adapter
