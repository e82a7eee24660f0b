#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/settings.h"

/// The instances of which NCCL has a context, a comm or a listen comm, and the calls that use them.
/// An instance is deleted when it is over and no call uses it, by the last of these calls.
/// Thread: any. The caller holds no instance's mutex: some functions take one.
namespace lyre::nccl_adapter {

/// Ends the use of an instance, and deletes one that is over: waits as ~Instance() does then.
struct EndsCall {
  void operator()(Instance* instance) const;
};

/// The use of an instance by one call of NCCL. nullptr: the instance has ended.
/// Owner: the call; it holds the instance's mutex neither at the begin nor at the end.
using InstanceCall = std::unique_ptr<Instance, EndsCall>;

/// The use of a listen comm, and of its instance.
struct ListeningCall {
  InstanceCall instance;  ///< nullptr: it has ended, and the listen comm with it
  ListenComm* comm = nullptr;
};

class InstanceRegistry {
 public:
  /// Returns nullptr for nullptr. Owner: takes the instance.
  Instance* keep(std::unique_ptr<Instance> instance);
  /// `context`: what keep() returned once.
  InstanceCall begin_call(const void* context);
  /// The first time for an instance that is not replaced. False: there is nothing to finalize.
  bool begin_finalize(const Instance* instance);
  /// After Instance::is_over(): no call begins any more. REQUIRES: a call uses `instance`.
  void end(const Instance* instance);

  /// Returns what NCCL gets. REQUIRES: a call uses `instance`.
  void* add_listening(Instance* instance, ListenComm* comm);
  ListeningCall begin_listening_call(const void* listen_comm);
  /// The last one: NCCL has the listen comm no longer.
  ListeningCall begin_last_listening_call(const void* listen_comm);

  /// Whether there is one that NCCL has not finalized, and that is not replaced.
  bool has_context();

  /// The one of v8 to v10; nullptr: there is none.
  Instance* process_instance();
  bool has_live_process_instance();
  /// The settings of the process's instance, if that one is dead.
  std::optional<Settings> settings_to_open_again();
  /// The instance before stays until NCCL has closed its comms, and at least until the next one is
  /// replaced: another thread may be about to call it. Owner: takes the instance.
  void set_process_instance(std::unique_ptr<Instance> instance);

 private:
  friend struct EndsCall;
  enum class State { kKept, kFinalized, kReplaced, kOver };  ///< kReplaced: of the process, dead
  struct Entry {
    std::unique_ptr<Instance> instance;
    uint32_t calls = 0;
    State state = State::kKept;
  };
  struct Listening {
    Instance* instance = nullptr;
    ListenComm* comm = nullptr;
  };

  // All of these REQUIRE that mutex_ is held.
  InstanceCall begin_locked(const void* context);
  Instance* keep_locked(std::unique_ptr<Instance> instance);
  void forget_listening(const Instance* instance);
  void drop_unused();

  void end_call(const Instance* instance);

  std::mutex mutex_;  ///< guards all; nothing waits for a daemon under it
  std::map<const void*, Entry> entries_;
  std::map<uintptr_t, Listening> listening_;  ///< by the number that NCCL has in place of a pointer
  uintptr_t last_listening_ = 0;
  Instance* process_instance_ = nullptr;
};

/// Of this process. Never destroyed: NCCL's threads may still call while the process runs its exit
/// handlers.
InstanceRegistry& instance_registry();

}  // namespace lyre::nccl_adapter
