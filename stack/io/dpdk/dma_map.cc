#include "stack/io/dpdk/dma_map.h"

#include <linux/vfio.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_memory.h>
#include <rte_vfio.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "stack/io/backend.h"

namespace lyre::io::dpdk {
namespace {

constexpr const char* kPoolsOnlyReason = "the driver of a port reads packet memory only";
constexpr const char* kDriverRefuses = "the driver does not take the memory";

uint64_t address(const uint8_t* base) { return reinterpret_cast<uint64_t>(base); }

/// Why DPDK did not register an area.
Error area_error() {
  if (rte_errno != ENOSPC) {
    return Error{rte_errno, std::string(kDriverRefuses) + ": " + rte_strerror(rte_errno)};
  }
  return Error{ENOSPC, std::string(kDriverRefuses) + ": all of DPDK's " +
                           std::to_string(RTE_MAX_MEMSEG_LISTS) +
                           " places for memory are taken; a worker has four, an attachment one"};
}

/// Maps memory in the container that all VFIO devices of the process share, at its own addresses.
/// DPDK's call for that (rte_vfio_container_dma_map()) has a table of 256 entries. When it is full,
/// also a removal can fail, and a mapping of addresses that are still mapped says that it is done:
/// a device would read the pages that were there before. The kernel allows 65,535 mappings
/// (dma_entry_limit of vfio_iommu_type1), and refuses one over another.
Status map_in_container(const uint8_t* base, size_t bytes) {
  vfio_iommu_type1_dma_map request{};
  request.argsz = sizeof request;
  request.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE;
  request.vaddr = request.iova = address(base);
  request.size = bytes;
  if (::ioctl(rte_vfio_get_container_fd(), VFIO_IOMMU_MAP_DMA, &request) == 0) return Ok{};
  return Error{errno, std::string("the IOMMU does not take the memory: ") + std::strerror(errno)};
}

/// REQUIRES: map_in_container() with the same values was successful. It fails only where the
/// container has no device any more, and the kernel has removed all mappings.
void unmap_in_container(const uint8_t* base, size_t bytes) {
  vfio_iommu_type1_dma_unmap request{};
  request.argsz = sizeof request;
  request.iova = address(base);
  request.size = bytes;
  ::ioctl(rte_vfio_get_container_fd(), VFIO_IOMMU_UNMAP_DMA, &request);
}

}  // namespace

DmaMap::Range* DmaMap::find(const uint8_t* base) {
  const auto at = ranges_.find(base);
  return at == ranges_.end() ? nullptr : &at->second;
}

void DmaMap::unmap_by_driver(const Range& range, rte_device* device) {
  const std::lock_guard lock(driver_mutex_);
  void* base = const_cast<uint8_t*>(range.base);
  rte_dev_dma_unmap(device, base, address(range.base), range.bytes);
}

/// An area is bookkeeping: DPDK maps, pins and reads nothing of external memory that is no heap.
/// rte_dev_dma_map() takes any range of an area. mlx5 takes an address in an area for one that DPDK
/// allocated (mlx5_mem_is_rte()), so nothing of the process's own may lie there. For an address
/// that it was not told of, it would map the whole area (mlx5_mr_create_primary()): ports read only
/// memory that all of them were told of.
DmaMap::Area DmaMap::area_of(const Range& range) const {
  const uint64_t begin = address(window_.data());
  const uint64_t offset = address(range.base) - begin;
  const bool is_inside = address(range.base) >= begin && offset < window_.size() &&
                         range.bytes <= window_.size() - offset;
  if (!is_inside) return {range.base, range.bytes, range.page_bytes};
  return {window_.data(), window_.size(), kRegionWindowPageBytes};
}

Status DmaMap::register_area(Range& range) {
  if (range.is_registered) return Ok{};
  const Area area = area_of(range);
  const std::lock_guard lock(areas_mutex_);
  uint32_t& users = area_users_[area.base];
  void* base = const_cast<uint8_t*>(area.base);
  if (users == 0 && rte_extmem_register(base, area.bytes, nullptr, 0, area.page_bytes) != 0) {
    area_users_.erase(area.base);
    return area_error();
  }
  ++users;
  range.is_registered = true;
  return Ok{};
}

void DmaMap::unregister_area(Range& range) {
  range.is_registered = false;
  const Area area = area_of(range);
  const std::lock_guard lock(areas_mutex_);
  const auto known = area_users_.find(area.base);
  if (--known->second > 0) return;
  area_users_.erase(known);
  rte_extmem_unregister(const_cast<uint8_t*>(area.base), area.bytes);
}

void DmaMap::hold_window() {
  if (driver_devices_.empty() || window_.empty()) return;
  held_window_.base = window_.data();
  held_window_.bytes = window_.size();
  held_window_.page_bytes = kRegionWindowPageBytes;
  static_cast<void>(register_area(held_window_));  // the first region says why
}

void DmaMap::set_window(std::span<const uint8_t> window) {
  window_ = window;
  hold_window();
}

Status DmaMap::map_for_driver(Range& range, rte_device* device) {
  if (Status known = register_area(range); !known) return known;
  void* base = const_cast<uint8_t*>(range.base);
  if (rte_dev_dma_map(device, base, address(range.base), range.bytes) == 0) return Ok{};
  return Error{ENOMEM, kDriverRefuses};
}

Status DmaMap::map(Range& range) {
  if (vfio_devices_ > 0 && !range.is_in_vfio) {
    if (address(range.base) % range.page_bytes != 0 || range.bytes % range.page_bytes != 0) {
      return Error{EINVAL, "the IOMMU maps whole pages only"};
    }
    if (Status mapped = map_in_container(range.base, range.bytes); !mapped) return mapped;
    range.is_in_vfio = true;
  }
  for (rte_device* device : driver_devices_) {
    if (Status mapped = map_for_driver(range, device); !mapped) return mapped;
  }
  return Ok{};
}

void DmaMap::unmap_vfio(Range& range) {
  if (!range.is_in_vfio) return;
  unmap_in_container(range.base, range.bytes);
  range.is_in_vfio = false;
}

void DmaMap::unmap(Range& range) {
  unmap_vfio(range);
  if (!range.is_registered) return;
  for (rte_device* device : driver_devices_) unmap_by_driver(range, device);
  unregister_area(range);
}

Status DmaMap::map_for(Range& range, rte_device* device, Reach reach) {
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

Status DmaMap::add_device(rte_device* device, Reach reach) {
  if (reach == Reach::kPoolsOnly) {
    refuse_optional();
    return Ok{};
  }
  if (is_physical_) return Ok{};
  if (reach == Reach::kVfio) {
    ++vfio_devices_;
  } else {
    driver_devices_.push_back(device);
    hold_window();
  }
  for (auto& [start, range] : ranges_) {
    if (!range.status.ok()) continue;
    Status mapped = map_for(range, device, reach);
    if (mapped.ok()) continue;
    if (range.need == Need::kRequired) return mapped;
    const std::lock_guard lock(mutex_);
    range.status = mapped;
  }
  return Ok{};
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
    if (range.is_registered) unmap_by_driver(range, device);
  }
  driver_devices_.erase(std::remove(driver_devices_.begin(), driver_devices_.end(), device),
                        driver_devices_.end());
  if (driver_devices_.empty() && held_window_.is_registered) unregister_area(held_window_);
}

Status DmaMap::make_reachable(Range& range) {
  if (is_physical_) {
    auto pages = PinnedPages::pin(range.base, range.bytes, range.page_bytes);
    if (!pages.ok()) return pages.error();
    range.pages = std::move(*pages);
    return Ok{};
  }
  Status mapped = map(range);
  if (!mapped.ok()) unmap(range);
  return mapped;
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
