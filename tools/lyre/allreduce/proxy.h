#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tools/lyre/allreduce/connection.h"
#include "tools/lyre/allreduce/device.h"
#include "tools/lyre/allreduce/operation.h"
#include "tools/lyre/allreduce/profiler.h"
#include "tools/lyre/allreduce/trace.h"

namespace lyre::allreduce {

/// NCCL's proxy service thread: everything about comms but the traffic runs on it (listen, connect,
/// accept, regMr, deregMr, close).
class ServiceThread {
 public:
  ServiceThread();
  ~ServiceThread();
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  /// Runs `task` there and waits. Fails: what the task throws, thrown here.
  void run(const std::function<void()>& task);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

/// NCCL's proxy progress thread: isend, irecv, test, and nothing else of the plugin. It spins with
/// sched_yield while operations are active and sleeps when there are none; on an error it ends,
/// with requests in flight.
class ProgressThread {
 public:
  struct Options {
    int slice_steps = 2;
    bool device_thread = false;  // the device's arithmetic on a thread of its own
    Neighbours neighbours;
  };

  /// `profiler` may be nullptr.
  ProgressThread(NetPlugin& plugin, Profiler* profiler, std::span<Channel* const> channels,
                 Options options);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// Runs the operations one after the other.
  void submit(std::span<Operation> operations);
  /// True when they are done; false after `patience`. Fails: throws the thread's Failure.
  bool wait(std::chrono::milliseconds patience);
  /// Grows while anything moves.
  uint64_t steps_done() const { return steps_done_.load(std::memory_order_relaxed); }

 private:
  void loop();
  void run_operation(Operation* operation);
  void run_device(std::stop_token stop);

  NetPlugin& plugin_;
  Profiler* profiler_;
  uint64_t operations_ = 0;
  std::span<Channel* const> channels_;
  Options options_;
  Device device_;
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

}  // namespace lyre::allreduce
