#include "stack/io/dpdk/pool.h"

#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <algorithm>
#include <string>

#include "stack/base/huge_map.h"

namespace lyre::io::dpdk {
namespace {

constexpr uint32_t kCacheMbufs = 256;

/// A cache may hold 1.5 times its size, which must not be a large part of a small pool.
uint32_t cache_size(uint32_t count) { return std::min(kCacheMbufs, count / 8); }

/// Physical pages are not contiguous, so with physical addresses an object must not cross a page.
/// Otherwise the memory is contiguous, as AF_XDP requires: it takes the pool as an array of equal
/// objects.
unsigned pool_flags(const PoolOptions& options) {
  return options.is_physical ? 0 : RTE_MEMPOOL_F_NO_IOVA_CONTIG;
}

uint32_t element_bytes(const PoolOptions& options) {
  return static_cast<uint32_t>(sizeof(rte_mbuf)) + options.private_bytes + options.room_bytes;
}

Error pool_error(const PoolOptions& options, const char* what) {
  return Error{rte_errno, options.name + ": " + what + ": " + rte_strerror(rte_errno)};
}

}  // namespace

size_t Pool::memory_bytes(const PoolOptions& options, uint32_t stride_bytes, size_t page_bytes) {
  if (!options.is_physical) return size_t{options.count} * stride_bytes;
  const size_t each_page = page_bytes / stride_bytes;
  return (options.count + each_page - 1) / each_page * page_bytes;
}

Status Pool::populate(const PoolOptions& options) {
  int populated = 0;
  char* base = reinterpret_cast<char*>(memory_.base());
  if (options.is_physical) {
    populated = rte_mempool_populate_virt(mempool_, base, memory_.bytes(), memory_.page_bytes(),
                                          nullptr, nullptr);
  } else {
    populated = rte_mempool_populate_iova(mempool_, base, reinterpret_cast<rte_iova_t>(base),
                                          memory_.bytes(), nullptr, nullptr);
  }
  if (populated < 0) rte_errno = -populated;
  if (populated < static_cast<int>(options.count)) return pool_error(options, "cannot be filled");
  return Ok{};
}

Result<std::unique_ptr<Pool>> Pool::make(const PoolOptions& options) {
  std::unique_ptr<Pool> pool(new Pool);
  rte_mempool_objsz sizes;
  const unsigned flags = pool_flags(options);
  pool->stride_bytes_ = rte_mempool_calc_obj_size(element_bytes(options), flags, &sizes);
  auto memory =
      PageMemory::map(options.name.c_str(),
                      memory_bytes(options, pool->stride_bytes_, kHugePageBytes), options.pages);
  if (!memory) return memory.error();
  pool->memory_ = std::move(*memory);

  rte_pktmbuf_pool_private layout = {};
  layout.mbuf_data_room_size = options.room_bytes;
  layout.mbuf_priv_size = options.private_bytes;
  // A node without hugepages has no room for DPDK's own part of the pool: then any node has it.
  for (const int node : {options.numa_node, SOCKET_ID_ANY}) {
    if (pool->mempool_ != nullptr) break;
    pool->mempool_ =
        rte_mempool_create_empty(options.name.c_str(), options.count, element_bytes(options),
                                 cache_size(options.count), sizeof(layout), node, flags);
  }
  if (pool->mempool_ == nullptr) return pool_error(options, "cannot be made");
  // "stack" reuses the most recently freed mbuf, which is still in the CPU cache; "ring" would
  // cycle through the whole pool.
  if (rte_mempool_set_ops_byname(pool->mempool_, "stack", nullptr) != 0 &&
      rte_mempool_set_ops_byname(pool->mempool_, "ring_mp_mc", nullptr) != 0) {
    return pool_error(options,
                      "DPDK lacks both of its mempool drivers \"stack\" and \"ring_mp_mc\"");
  }
  rte_pktmbuf_pool_init(pool->mempool_, &layout);
  if (Status filled = pool->populate(options); !filled) return filled.error();
  rte_mempool_obj_iter(pool->mempool_, rte_pktmbuf_init, nullptr);
  return pool;
}

Pool::~Pool() { rte_mempool_free(mempool_); }

uint32_t Pool::free_count() const {
  const rte_mempool_cache* cache = rte_mempool_default_cache(mempool_, rte_lcore_id());
  return rte_mempool_get_ops(mempool_->ops_index)->get_count(mempool_) +
         (cache == nullptr ? 0 : cache->len);
}

}  // namespace lyre::io::dpdk
