#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "tools/nccl_emulator/ring.h"
#include "tools/nccl_emulator/staging.h"

namespace lyre::nccl_emulator {

/// Slices that crossed the border between device and proxy. It only grows, and has one writer.
struct alignas(64) StepCounter {
  std::atomic<uint64_t> value{0};
};

/// One end of a comm. Sending: the device fills slots, the proxy sends them. Receiving: the proxy
/// fills slots, the device empties them.
struct Connection {
  void* comm = nullptr;
  Staging staging;
  bool crosses_hosts = false;
  int tag = 0;  // the sender's rank, on both sides

  uint64_t steps = 0;        // of all operations begun; written by the progress thread
  StepCounter device_steps;  // written by the device
  StepCounter proxy_steps;   // written by the progress thread
  std::array<uint32_t, kSlots> slot_bytes{};  // by step; guarded by the counters
  uint64_t bytes_moved = 0;                   // written by the progress thread
};

/// A rank's two connections in one ring: to the right neighbour and from the left.
struct Channel {
  Connection send;
  Connection recv;
};

}  // namespace lyre::nccl_emulator
