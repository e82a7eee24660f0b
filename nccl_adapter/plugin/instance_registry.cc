#include "nccl_adapter/plugin/instance_registry.h"

#include <algorithm>
#include <utility>

namespace lyre::nccl_adapter {
namespace {

bool is_idle(Instance& instance) {
  const std::lock_guard lock(instance.mutex());
  return instance.is_idle();
}

}  // namespace

InstanceRegistry& instance_registry() {
  static InstanceRegistry& the_registry = *new InstanceRegistry;
  return the_registry;
}

void EndsCall::operator()(Instance* instance) const { instance_registry().end_call(instance); }

Instance* InstanceRegistry::keep(std::unique_ptr<Instance> instance) {
  const std::lock_guard lock(mutex_);
  return keep_locked(std::move(instance));
}

Instance* InstanceRegistry::keep_locked(std::unique_ptr<Instance> instance) {
  Instance* const kept = instance.get();
  if (kept != nullptr) entries_[kept].instance = std::move(instance);
  return kept;
}

InstanceCall InstanceRegistry::begin_call(const void* context) {
  const std::lock_guard lock(mutex_);
  return begin_locked(context);
}

InstanceCall InstanceRegistry::begin_locked(const void* context) {
  const auto found = entries_.find(context);
  if (found == entries_.end() || found->second.state == State::kOver) return nullptr;
  ++found->second.calls;
  return InstanceCall(found->second.instance.get());
}

void InstanceRegistry::end_call(const Instance* instance) {
  std::unique_ptr<Instance> ended;  // before the lock: deleted when that is free
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(instance);
  Entry& entry = found->second;
  if (--entry.calls > 0 || entry.state != State::kOver) return;
  ended = std::move(entry.instance);
  forget_listening(instance);
  entries_.erase(found);
}

bool InstanceRegistry::begin_finalize(const Instance* instance) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(instance);
  if (found == entries_.end() || found->second.state != State::kKept) return false;
  found->second.state = State::kFinalized;
  if (process_instance_ == instance) {
    process_instance_ = nullptr;
    drop_unused();
  }
  return true;
}

void InstanceRegistry::end(const Instance* instance) {
  const std::lock_guard lock(mutex_);
  entries_.at(instance).state = State::kOver;
}

// NCCL gets a number: the address of one that has ended may be that of another one.
void* InstanceRegistry::add_listening(Instance* instance, ListenComm* comm) {
  const std::lock_guard lock(mutex_);
  listening_[++last_listening_] = {instance, comm};
  return reinterpret_cast<void*>(last_listening_);
}

ListeningCall InstanceRegistry::begin_listening_call(const void* listen_comm) {
  const std::lock_guard lock(mutex_);
  const auto found = listening_.find(reinterpret_cast<uintptr_t>(listen_comm));
  if (found == listening_.end()) return {};
  return {begin_locked(found->second.instance), found->second.comm};
}

ListeningCall InstanceRegistry::begin_last_listening_call(const void* listen_comm) {
  ListeningCall call = begin_listening_call(listen_comm);
  const std::lock_guard lock(mutex_);
  listening_.erase(reinterpret_cast<uintptr_t>(listen_comm));
  return call;
}

void InstanceRegistry::forget_listening(const Instance* instance) {
  std::erase_if(listening_,
                [instance](const auto& entry) { return entry.second.instance == instance; });
}

/// Deletes replaced instances of which NCCL has nothing any more: dead ones wait for no daemon.
void InstanceRegistry::drop_unused() {
  std::erase_if(entries_, [this](const auto& item) {
    const Entry& entry = item.second;
    if (entry.state != State::kReplaced || entry.calls > 0 || !is_idle(*entry.instance)) {
      return false;
    }
    forget_listening(entry.instance.get());
    return true;
  });
}

bool InstanceRegistry::has_context() {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto& item) { return item.second.state == State::kKept; });
}

Instance* InstanceRegistry::process_instance() {
  const std::lock_guard lock(mutex_);
  return process_instance_;
}

bool InstanceRegistry::has_live_process_instance() {
  const std::lock_guard lock(mutex_);
  return process_instance_ != nullptr && !process_instance_->is_dead();
}

std::optional<Settings> InstanceRegistry::settings_to_open_again() {
  const std::lock_guard lock(mutex_);
  if (process_instance_ == nullptr || !process_instance_->is_dead()) return std::nullopt;
  return process_instance_->settings();
}

void InstanceRegistry::set_process_instance(std::unique_ptr<Instance> instance) {
  const std::lock_guard lock(mutex_);
  drop_unused();
  if (process_instance_ != nullptr) entries_.at(process_instance_).state = State::kReplaced;
  process_instance_ = keep_locked(std::move(instance));
}

}  // namespace lyre::nccl_adapter
