#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tools/nccl_emulator/connection.h"
#include "tools/nccl_emulator/device.h"
#include "tools/nccl_emulator/operation.h"
#include "tools/nccl_emulator/profiler.h"
#include "tools/nccl_emulator/trace.h"

namespace lyre::nccl_emulator {

/// NCCL's proxy progress thread. It calls isend, irecv and test, and nothing else of the plugin. It
/// spins with sched_yield() while an operation is active, and sleeps otherwise. As on a GPU, an
/// operation is over when the device has the result: its last sends are completed during the next
/// operation, or before wait() returns. After an error it ends, and leaves requests in flight.
/// Owner: borrows plugin, profiler, channels and operations.
/// Thread: one other thread calls submit() and wait(); steps_done() any.
class ProgressThread {
 public:
  struct Options {
    int slice_steps = 2;
    bool device_thread = false;  // the device's arithmetic gets a thread of its own
    Neighbours neighbours;       // for the profiler
  };

  /// `profiler` may be nullptr.
  ProgressThread(NetPlugin& plugin, Profiler* profiler, std::span<Channel* const> channels,
                 Options options);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// Starts the operations, which run one after the other. The caller keeps them, and the memory
  /// that they name, until wait() has returned true.
  void submit(std::span<Operation> operations);
  /// Returns true when they are done, false after `timeout`.
  /// Fails: throws Failure with the text of the thread's error.
  bool wait(std::chrono::milliseconds timeout);
  /// Messages posted or done and slices computed since construction.
  uint64_t steps_done() const { return steps_done_.load(std::memory_order_relaxed); }

 private:
  class Side;

  void loop();
  void run_operation(Operation* operation);
  void add_sides(const Operation& operation, SlotPlan plan, const OperationTrace& trace);
  static size_t poll(std::vector<std::list<Side>>& channels, size_t (Side::*poll_side)());
  size_t poll_sends();
  size_t poll_receives();
  static bool all_done(const std::vector<std::list<Side>>& sides);
  bool is_device_done() const;
  void finish_sends();
  void run_device(std::stop_token stop);

  NetPlugin& plugin_;
  Profiler* profiler_;
  uint64_t operations_ = 0;
  std::span<Channel* const> channels_;
  Options options_;
  Device device_;
  std::vector<std::list<Side>> sends_;  // by channel, those of earlier operations first
  std::vector<std::list<Side>> receives_;
  std::atomic<bool> device_done_{false};  // with a thread of its own
  std::atomic<bool> device_failed_{false};
  std::string device_error_;
  std::atomic<uint64_t> steps_done_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::span<Operation> submitted_;
  bool busy_ = false;
  std::optional<std::string> error_;
  std::thread thread_;
};

}  // namespace lyre::nccl_emulator
