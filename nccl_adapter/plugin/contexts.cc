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
  contexts_[number] = std::move(made);
  return number;
}

std::shared_ptr<Contexts::Context> Contexts::find(const void* context) {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(context);
  return found != contexts_.end() ? found->second : nullptr;
}

bool Contexts::is_one(const void* context) { return find(context) != nullptr; }

bool Contexts::is_empty() {
  const std::lock_guard lock(mutex_);
  return contexts_.empty();
}

// A thread that waited for another's attempt takes its failure.
Result Contexts::open(const void* context, InstanceCall* call) {
  const std::shared_ptr<Context> found = find(context);
  if (found == nullptr) return Result::kSuccess;
  // Relaxed: a number; what it is compared with is read under the mutex that it changes under.
  const uint64_t failures = found->failures.load(std::memory_order_relaxed);
  const std::lock_guard lock(found->mutex);
  if (found->has_ended) return Result::kSuccess;
  if (found->instance == nullptr) {
    if (found->failures.load(std::memory_order_relaxed) != failures) return Result::kSystemError;
    found->instance = instance_registry().keep(open_instance(found->settings, found->communicator));
  }
  if (found->instance == nullptr) {
    found->failures.fetch_add(1, std::memory_order_relaxed);
    return Result::kSystemError;
  }
  *call = instance_registry().begin_call(found->instance);
  return Result::kSuccess;
}

Instance* Contexts::remove(const void* context) {
  const std::shared_ptr<Context> found = find(context);
  if (found == nullptr) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    contexts_.erase(context);
  }
  const std::lock_guard lock(found->mutex);
  found->has_ended = true;
  return found->instance;
}

}  // namespace lyre::nccl_adapter
