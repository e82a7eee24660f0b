#include "nccl_adapter/plugin/contexts.h"

#include <utility>

namespace lyre::nccl_adapter {

using nccl_abi::Result;

Contexts& contexts() {
  static Contexts& the_contexts = *new Contexts;
  return the_contexts;
}

void* Contexts::add(Prepared prepared) {
  Instance* const instance = instance_registry().keep(std::move(prepared.instance));
  auto made = std::make_shared<Context>(prepared, instance);
  const std::lock_guard lock(mutex_);
  void* const number = reinterpret_cast<void*>(++last_);
  live_[number] = std::move(made);
  return number;
}

std::shared_ptr<Contexts::Context> Contexts::find_live(const void* context) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(context);
  return found != live_.end() ? found->second : nullptr;
}

bool Contexts::has_live() {
  const std::lock_guard lock(mutex_);
  return !live_.empty();
}

Result Contexts::open(const void* context, InstanceCall* call) {
  if (const std::shared_ptr<Context> live = find_live(context)) {
    // Relaxed: a number; what it is compared with is read under the mutex that it changes under.
    const uint64_t failures = live->failures.load(std::memory_order_relaxed);
    const std::lock_guard lock(live->mutex);
    const bool has_failed = live->failures.load(std::memory_order_relaxed) != failures;
    // A thread that waited for another's attempt takes its failure.
    if (has_failed && live->instance == nullptr) return Result::kSystemError;
    if (!live->is_finalized) return open_live(*live, call);
  }
  const std::lock_guard lock(mutex_);
  const auto found = finalized_.find(context);
  if (found != finalized_.end()) *call = instance_registry().begin_call(found->second);
  return Result::kSuccess;
}

/// REQUIRES: the context's mutex is held.
Result Contexts::open_live(Context& context, InstanceCall* call) {
  if (context.instance == nullptr) {
    context.instance =
        instance_registry().keep(open_instance(context.settings, context.communicator));
  }
  if (context.instance == nullptr) {
    context.failures.fetch_add(1, std::memory_order_relaxed);
    return Result::kSystemError;
  }
  *call = instance_registry().begin_call(context.instance);
  return Result::kSuccess;
}

Instance* Contexts::finalize(const void* context) {
  const std::shared_ptr<Context> live = find_live(context);
  if (live == nullptr) return nullptr;
  const std::lock_guard its_lock(live->mutex);
  if (live->is_finalized) return nullptr;  // another thread was first
  live->is_finalized = true;
  const std::lock_guard lock(mutex_);
  live_.erase(context);
  if (live->instance != nullptr) finalized_[context] = live->instance;
  return live->instance;
}

void Contexts::forget(const Instance* instance) {
  const std::lock_guard lock(mutex_);
  std::erase_if(finalized_, [instance](const auto& item) { return item.second == instance; });
}

}  // namespace lyre::nccl_adapter
