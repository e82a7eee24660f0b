#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "stack/base/result.h"
#include "stack/io/dpdk/page_memory.h"

struct rte_mempool;
struct rte_mbuf;

namespace lyre::io::dpdk {

struct PoolOptions {
  std::string name;  ///< unique in the process, at most 24 characters
  uint32_t count = 0;
  uint16_t private_bytes = 0;
  uint16_t room_bytes = 0;  ///< headroom included; 0: for attached memory only
  PageKind pages = PageKind::kAny;
  bool is_physical = false;  ///< NICs use the physical addresses of the pages
  int numa_node = -1;
};

/// A mempool of mbufs on memory of our own: other processes can map it, and an mbuf takes only the
/// bytes it needs (DPDK's own memory without hugepages gives each mbuf a page).
/// Owner: every mbuf must be returned, and every port closed, before it is destroyed.
class Pool {
 public:
  static Result<std::unique_ptr<Pool>> make(const PoolOptions& options);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  rte_mempool* mempool() const { return mempool_; }
  const PageMemory& memory() const { return memory_; }
  /// Bytes from one object to the next.
  uint32_t stride_bytes() const { return stride_bytes_; }
  /// Approximate number of free mbufs: the caches of other threads are not counted.
  uint32_t free_count() const;

 private:
  Pool() = default;
  static size_t memory_bytes(const PoolOptions& options, uint32_t stride_bytes, size_t page_bytes);
  Status populate(const PoolOptions& options);

  PageMemory memory_;  // outlives the mempool
  rte_mempool* mempool_ = nullptr;
  uint32_t stride_bytes_ = 0;
};

}  // namespace lyre::io::dpdk
