#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tools/lyre/allreduce/net_plugin.h"
#include "tools/lyre/allreduce/ring.h"

namespace lyre::allreduce {

/// Shared anonymous pages: the kind of memory that cudaHostAlloc gives.
class SharedPages {
 public:
  SharedPages() = default;
  explicit SharedPages(size_t bytes);
  SharedPages(SharedPages&& other) noexcept;
  SharedPages& operator=(SharedPages&& other) noexcept;
  ~SharedPages();
  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

/// The staging buffers of one connection, laid out and registered as NCCL does: one allocation, one
/// registration for each protocol (LL128 is registered there too, and idle over a network).
/// Thread: the proxy service thread.
class Staging {
 public:
  void create(NetPlugin& plugin, void* comm);
  /// NCCL's order: registrations first, then the memory, and only then the comm is closed.
  void destroy(NetPlugin& plugin, void* comm);

  uint8_t* slots(Protocol protocol) const;
  void* mhandle(Protocol protocol) const;

 private:
  static constexpr size_t kRegions = 3;  // LL, LL128, Simple
  SharedPages pages_;
  std::array<void*, kRegions> mhandles_{};
};

/// Slices that crossed the border between device and proxy; both only grow, and each has one
/// writer.
struct alignas(64) StepCounter {
  std::atomic<uint64_t> value{0};
};

/// One end of a comm. Sending: the device fills slots, the proxy sends them. Receiving: the proxy
/// fills them, the device uses them up.
struct Connection {
  void* comm = nullptr;
  Staging staging;
  bool crosses_hosts = false;
  int tag = 0;  // the sender's rank, on both sides

  StepCounter device_steps;                   // written by the device
  StepCounter proxy_steps;                    // written by the progress thread
  std::array<uint32_t, kSlots> slot_bytes{};  // of a filled slot; guarded by the counters
  uint64_t bytes_moved = 0;                   // by the progress thread
};

struct Channel {
  Connection send;
  Connection recv;
};

}  // namespace lyre::allreduce
