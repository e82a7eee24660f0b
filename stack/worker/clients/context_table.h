#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "stack/base/check.h"
#include "stack/worker/clients/context.h"

namespace lyre::worker {

/// The contexts of one worker: by index, as the control thread numbers them, and those in use as a
/// dense list, so that a turn looks at no others.
/// Owner: takes its memory at construction; that of contexts that are never used stays untouched.
/// Thread: the worker.
class ContextTable {
 public:
  explicit ContextTable(uint32_t contexts_max)
      : contexts_(static_cast<Context*>(std::calloc(contexts_max, sizeof(Context))), std::free) {
    LYRE_CHECK(contexts_ != nullptr);  // at the start: the count is configured
    in_use_.reserve(contexts_max);
  }

  Context& operator[](uint32_t index) { return contexts_[index]; }
  const Context& operator[](uint32_t index) const { return contexts_[index]; }
  uint32_t index_of(const Context& context) const {
    return static_cast<uint32_t>(&context - contexts_.get());
  }
  /// Valid until the next open() or close().
  std::span<const uint32_t> in_use() const { return in_use_; }

  /// The context as new, in state kAttached. REQUIRES: it is not in use.
  Context& open(uint32_t index) {
    Context& context = contexts_[index];
    LYRE_CHECK(context.state == Context::State::kFree);
    context = Context{};
    context.state = Context::State::kAttached;
    context.dense_index = static_cast<uint32_t>(in_use_.size());
    in_use_.push_back(index);
    return context;
  }
  /// The context is free; the last of in_use() takes its place there. REQUIRES: it is in use.
  void close(uint32_t index) {
    Context& context = contexts_[index];
    LYRE_CHECK(context.state != Context::State::kFree);
    context.state = Context::State::kFree;
    const uint32_t last = in_use_.back();
    in_use_[context.dense_index] = last;
    contexts_[last].dense_index = context.dense_index;
    in_use_.pop_back();
  }

 private:
  static_assert(static_cast<int>(Context::State::kFree) == 0);  // as zeroed memory has it
  std::unique_ptr<Context[], void (*)(void*)> contexts_;
  std::vector<uint32_t> in_use_;
};

}  // namespace lyre::worker
