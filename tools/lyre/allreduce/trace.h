#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tools/lyre/allreduce/operation.h"
#include "tools/lyre/allreduce/profiler.h"

/// What a profiler is told while an operation runs. Thread: the progress thread.
namespace lyre::allreduce {

/// The ranks that are sent to and received from.
struct Neighbours {
  int right = 0;
  int left = 0;
};

/// One direction of one channel; nothing is told where there is no profiler.
class SideTrace {
 public:
  SideTrace(Profiler* profiler, void* proxy_op) : profiler_(profiler), proxy_op_(proxy_op) {}

  /// The phandle of a message, which is repeated when the plugin did not take it.
  void* start_step(uint64_t step) {
    StepEvent& event = steps_[step % kSlots];
    if (profiler_ != nullptr && event.event == nullptr) {
      event.event = profiler_->start_step(proxy_op_, step);
    }
    return &event;
  }
  void stop_step(uint64_t step) {
    void* event = std::exchange(steps_[step % kSlots].event, nullptr);
    if (profiler_ != nullptr) profiler_->stop(event);
  }
  void stop() {
    if (profiler_ != nullptr) profiler_->stop(proxy_op_);
  }

 private:
  Profiler* profiler_;
  void* proxy_op_;
  std::array<StepEvent, kSlots> steps_{};
};

/// The whole operation.
class OperationTrace {
 public:
  OperationTrace(Profiler* profiler, uint64_t number, const Operation& operation,
                 Neighbours neighbours)
      : profiler_(profiler), neighbours_(neighbours) {
    if (profiler_ != nullptr) {
      collective_ = profiler_->start_all_reduce(number, operation.data.size());
    }
  }
  /// `messages`: how many there will be. Of a side that has none nothing is told.
  SideTrace send(size_t channel, uint64_t messages) const {
    return start(channel, messages, neighbours_.right, true);
  }
  SideTrace receive(size_t channel, uint64_t messages) const {
    return start(channel, messages, neighbours_.left, false);
  }
  void stop() {
    if (profiler_ != nullptr) profiler_->stop(collective_);
  }

 private:
  SideTrace start(size_t channel, uint64_t messages, int peer, bool is_send) const {
    if (profiler_ == nullptr || messages == 0) return {nullptr, nullptr};
    const auto index = static_cast<int>(channel);
    return {profiler_, profiler_->start_proxy_op(collective_, index, peer, is_send)};
  }

  Profiler* profiler_;
  Neighbours neighbours_;
  void* collective_ = nullptr;
};

}  // namespace lyre::allreduce
