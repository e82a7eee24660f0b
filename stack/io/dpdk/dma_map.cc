#include "stack/io/dpdk/dma_map.h"

#include <rte_dev.h>
#include <rte_memory.h>
#include <rte_vfio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lyre::io::dpdk {
namespace {

constexpr const char* kPoolsOnlyReason = "the driver of a port reads packet memory only";
constexpr const char* kRefused = "the IOMMU or the driver does not take the memory";

uint64_t address(const uint8_t* base) { return reinterpret_cast<uint64_t>(base); }

}  // namespace

DmaMap::Range* DmaMap::find(const uint8_t* base) {
  const auto at = ranges_.find(base);
  return at == ranges_.end() ? nullptr : &at->second;
}

bool DmaMap::map_for_driver(Range& range, rte_device* device) {
  void* base = const_cast<uint8_t*>(range.base);
  if (!range.is_registered) {
    if (rte_extmem_register(base, range.bytes, nullptr, 0, range.page_bytes) != 0) return false;
    range.is_registered = true;
  }
  return rte_dev_dma_map(device, base, address(range.base), range.bytes) == 0;
}

bool DmaMap::map(Range& range) {
  if (vfio_devices_ > 0 && !range.is_in_vfio) {
    if (address(range.base) % range.page_bytes != 0 || range.bytes % range.page_bytes != 0) {
      return false;  // the IOMMU maps whole pages only
    }
    // The memory is mapped in the VFIO container, not through the device. A device mapping requires
    // registration as external memory, of which a process can have about 127; the container also
    // merges adjacent mappings.
    range.is_in_vfio =
        rte_vfio_container_dma_map(RTE_VFIO_DEFAULT_CONTAINER_FD, address(range.base),
                                   address(range.base), range.bytes) == 0;
    if (!range.is_in_vfio) return false;
  }
  for (rte_device* device : driver_devices_) {
    if (!map_for_driver(range, device)) return false;
  }
  return true;
}

void DmaMap::unmap_vfio(Range& range) {
  if (!range.is_in_vfio) return;
  rte_vfio_container_dma_unmap(RTE_VFIO_DEFAULT_CONTAINER_FD, address(range.base),
                               address(range.base), range.bytes);
  range.is_in_vfio = false;
}

void DmaMap::unmap(Range& range) {
  void* base = const_cast<uint8_t*>(range.base);
  unmap_vfio(range);
  if (!range.is_registered) return;
  for (rte_device* device : driver_devices_) {
    rte_dev_dma_unmap(device, base, address(range.base), range.bytes);
  }
  rte_extmem_unregister(base, range.bytes);
  range.is_registered = false;
}

bool DmaMap::map_for(Range& range, rte_device* device, Reach reach) {
  return reach == Reach::kVfio ? map(range) : map_for_driver(range, device);
}

/// What is mapped or pinned stays so until it is removed.
void DmaMap::refuse_optional() {
  const std::lock_guard lock(mutex_);
  ++pools_only_devices_;
  for (auto& [start, range] : ranges_) {
    if (range.need == Need::kOptional) range.status = Error{ENOTSUP, kPoolsOnlyReason};
  }
}

bool DmaMap::add_device(rte_device* device, Reach reach) {
  if (reach == Reach::kPoolsOnly) {
    refuse_optional();
    return true;
  }
  if (is_physical_) return true;
  if (reach == Reach::kVfio) {
    ++vfio_devices_;
  } else {
    driver_devices_.push_back(device);
  }
  for (auto& [start, range] : ranges_) {
    if (!range.status.ok() || map_for(range, device, reach)) continue;
    if (range.need == Need::kRequired) return false;
    const std::lock_guard lock(mutex_);
    range.status = Error{ENOMEM, kRefused};
  }
  return true;
}

void DmaMap::remove_device(rte_device* device, Reach reach) {
  if (reach == Reach::kPoolsOnly) {
    const std::lock_guard lock(mutex_);
    --pools_only_devices_;
    return;
  }
  if (is_physical_) return;
  if (reach == Reach::kVfio) {
    // The container drops its mappings with its last device, so they are removed before that.
    if (--vfio_devices_ > 0) return;
    for (auto& [start, range] : ranges_) unmap_vfio(range);
    return;
  }
  for (const auto& [start, range] : ranges_) {
    void* base = const_cast<uint8_t*>(range.base);
    if (range.is_registered) rte_dev_dma_unmap(device, base, address(range.base), range.bytes);
  }
  driver_devices_.erase(std::remove(driver_devices_.begin(), driver_devices_.end(), device),
                        driver_devices_.end());
}

Status DmaMap::make_reachable(Range& range) {
  if (is_physical_) {
    auto pages = PinnedPages::pin(range.base, range.bytes, range.page_bytes);
    if (!pages.ok()) return pages.error();
    range.pages = std::move(*pages);
    return Ok{};
  }
  if (map(range)) return Ok{};
  unmap(range);
  return Error{ENOMEM, kRefused};
}

Status DmaMap::add(const uint8_t* base, size_t bytes, size_t page_bytes, Need need) {
  {
    const std::lock_guard lock(mutex_);
    if (Range* known = find(base); known != nullptr) {
      if (known->bytes != bytes) return Error{EEXIST, "other memory begins there"};
      ++known->users;
      return known->status;
    }
  }
  const std::shared_lock devices(devices_mutex_);
  Range range{.base = base, .bytes = bytes, .page_bytes = page_bytes, .need = need};
  range.status = make_reachable(range);
  const std::lock_guard lock(mutex_);
  if (need == Need::kOptional && pools_only_devices_ > 0) {
    range.status = Error{ENOTSUP, kPoolsOnlyReason};
  }
  const Status status = range.status;
  ranges_.emplace(base, std::move(range));
  return status;
}

bool DmaMap::is_readable(const uint8_t* base) {
  const std::lock_guard lock(mutex_);
  const Range* range = find(base);
  return range != nullptr && range->status.ok();
}

std::span<const uint64_t> DmaMap::page_addresses(const uint8_t* base) {
  const std::lock_guard lock(mutex_);
  const Range* range = find(base);
  return range == nullptr ? std::span<const uint64_t>{} : range->pages.addresses();
}

void DmaMap::remove(const uint8_t* base, size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    Range* range = find(base);
    if (range == nullptr || range->bytes != bytes) return;
    if (range->users > 1) {
      --range->users;
      return;
    }
  }
  const std::shared_lock devices(devices_mutex_);
  Range last;
  {
    const std::lock_guard lock(mutex_);
    const auto range = ranges_.find(base);
    last = std::move(range->second);
    ranges_.erase(range);
  }
  unmap(last);
}

}  // namespace lyre::io::dpdk
