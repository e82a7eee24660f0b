#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tools/nccl_emulator/operation.h"
#include "tools/nccl_emulator/profiler.h"

/// The events that a profiler gets while an operation runs. Thread: the progress thread.
namespace lyre::nccl_emulator {

/// The ranks that are sent to and received from.
struct Neighbours {
  int right = 0;
  int left = 0;
};

/// The events of one direction of one channel. Without a profiler the calls do nothing.
class SideTrace {
 public:
  SideTrace(Profiler* profiler, void* proxy_op) : profiler_(profiler), proxy_op_(proxy_op) {}

  /// Returns the phandle of a message. When the plugin did not take the message, the call is
  /// repeated, and the event is the same.
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

/// The events of a whole operation.
class OperationTrace {
 public:
  OperationTrace(Profiler* profiler, uint64_t number, const Operation& operation,
                 Neighbours neighbours)
      : profiler_(profiler), neighbours_(neighbours) {
    if (profiler_ != nullptr) {
      collective_ =
          profiler_->start_collective(number, name_of(operation.collective), operation.data.size());
    }
  }
  /// `messages` is the number of messages to come. A direction without messages has no events.
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

}  // namespace lyre::nccl_emulator
