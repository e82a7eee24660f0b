#include "stack/io/dpdk/dma_map.h"

#include <rte_dev.h>
#include <rte_memory.h>
#include <rte_vfio.h>

#include <algorithm>

namespace lyre::io::dpdk {
namespace {

uint64_t address(const uint8_t* base) { return reinterpret_cast<uint64_t>(base); }

}  // namespace

DmaMap::Range* DmaMap::find(const uint8_t* base) {
  const auto at = std::find_if(ranges_.begin(), ranges_.end(),
                               [base](const Range& range) { return range.base == base; });
  return at == ranges_.end() ? nullptr : &*at;
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
      return false;  // the IOMMU knows whole pages only
    }
    // The container itself is asked, not the device: that needs no registration as external
    // memory, of which a process can have about 127, and neighbouring maps are merged.
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
}

bool DmaMap::add_device(rte_device* device, bool is_vfio) {
  if (is_physical_) return true;
  const std::lock_guard lock(mutex_);
  if (is_vfio) {
    ++vfio_devices_;
  } else {
    driver_devices_.push_back(device);
  }
  bool is_complete = true;
  for (Range& range : ranges_) {
    is_complete &= is_vfio ? map(range) : map_for_driver(range, device);
  }
  return is_complete;
}

void DmaMap::remove_device(rte_device* device, bool is_vfio) {
  if (is_physical_) return;
  const std::lock_guard lock(mutex_);
  if (is_vfio) {
    // The container loses its maps with its last device, so they go while it still knows them.
    if (--vfio_devices_ > 0) return;
    for (Range& range : ranges_) unmap_vfio(range);
    return;
  }
  for (const Range& range : ranges_) {
    void* base = const_cast<uint8_t*>(range.base);
    if (range.is_registered) rte_dev_dma_unmap(device, base, address(range.base), range.bytes);
  }
  driver_devices_.erase(std::remove(driver_devices_.begin(), driver_devices_.end(), device),
                        driver_devices_.end());
}

bool DmaMap::add(const uint8_t* base, size_t bytes, size_t page_bytes) {
  if (is_physical_) return true;
  const std::lock_guard lock(mutex_);
  if (Range* known = find(base); known != nullptr) {
    if (known->bytes != bytes) return false;
    ++known->users;
    return true;
  }
  ranges_.push_back({base, bytes, page_bytes, 1, false, false});
  if (map(ranges_.back())) return true;
  unmap(ranges_.back());
  ranges_.pop_back();
  return false;
}

void DmaMap::remove(const uint8_t* base, size_t bytes) {
  if (is_physical_) return;
  const std::lock_guard lock(mutex_);
  Range* range = find(base);
  if (range == nullptr || range->bytes != bytes || --range->users > 0) return;
  unmap(*range);
  *range = ranges_.back();
  ranges_.pop_back();
}

}  // namespace lyre::io::dpdk
