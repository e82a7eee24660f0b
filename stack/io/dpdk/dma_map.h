#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "stack/base/result.h"
#include "stack/io/dpdk/pinned_pages.h"

struct rte_device;

namespace lyre::io::dpdk {

/// The memory that the DMA devices of this process can access. With virtual addresses it is mapped
/// in the IOMMU or announced to the driver; with physical addresses its pages are pinned. Without
/// such devices every call does nothing.
/// Thread: any for memory, the control thread for devices. Workers add and remove only memory that
/// another thread has added before them and removes after them.
/// It is the only object here that workers share: the IOMMU's mappings belong to the process, and
/// several workers may use the same client memory. The lock that they take is never held during a
/// system call, and is taken when memory is added or removed, never for a packet.
class DmaMap {
 public:
  /// Held while devices are added or removed: no thread maps or unmaps memory meanwhile.
  using DeviceLock = std::unique_lock<std::shared_mutex>;
  /// Waits until memory that is being mapped is mapped, which may take seconds.
  [[nodiscard]] DeviceLock lock_devices() {
    return is_physical_ ? DeviceLock() : DeviceLock(devices_mutex_);
  }
  /// As above, but empty instead of waiting.
  [[nodiscard]] std::optional<DeviceLock> try_lock_devices() {
    if (is_physical_) return DeviceLock();
    DeviceLock lock(devices_mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return std::nullopt;
    return lock;
  }

  /// How a device gets to memory.
  enum class Reach : uint8_t {
    kVfio,       ///< by the IOMMU mappings of the process
    kDriver,     ///< its driver is told of each piece of memory
    kPoolsOnly,  ///< its driver finds packet memory by itself, and cannot read other memory
  };
  /// Maps all known memory for `device`, and all memory that is added later. Optional memory that
  /// cannot be mapped is no longer readable by any device: see is_readable().
  /// Fails: the device cannot access memory that ports need. REQUIRES: the lock of devices.
  Status add_device(rte_device* device, Reach reach);
  /// REQUIRES: the lock of devices.
  void remove_device(rte_device* device, Reach reach);
  /// Thread: the control thread, before any worker runs.
  void set_physical_addresses(bool is_physical) { is_physical_ = is_physical; }
  /// As Backend::set_region_window(). DPDK has RTE_MAX_MEMSEG_LISTS places for areas of memory:
  /// what lies in the window shares one, and other memory takes one each.
  /// That one is taken, if one is left, while a device needs areas: other memory could take them
  /// all. Thread: the control thread, before another thread adds memory.
  void set_window(std::span<const uint8_t> window);

  /// Memory that ports need, or whose data can be copied instead.
  enum class Need : uint8_t { kRequired, kOptional };
  /// Every add() is followed by a remove(), also when it failed. Only the first add() and the last
  /// remove() for a `base` are slow.
  /// Fails: no device can read the memory, and the caller copies instead.
  Status add(const uint8_t* base, size_t bytes, size_t page_bytes, Need need = Need::kOptional);
  void remove(const uint8_t* base, size_t bytes);
  /// What add() said, or what add_device() found since.
  bool is_readable(const uint8_t* base);
  /// The physical addresses of the pages of added memory, one a page; empty where devices use
  /// virtual addresses. Valid until its last remove().
  std::span<const uint64_t> page_addresses(const uint8_t* base);

 private:
  struct Range {
    const uint8_t* base = nullptr;
    size_t bytes = 0;
    size_t page_bytes = 0;
    Need need = Need::kOptional;
    uint32_t users = 1;
    bool is_in_vfio = false;     ///< in the container that all VFIO devices of the process share
    bool is_registered = false;  ///< its area, with DPDK
    Status status = Ok{};        ///< whether devices can access it
    PinnedPages pages = {};      ///< with physical addresses
  };
  /// What DPDK knows as external memory, as drivers other than those of VFIO require.
  struct Area {
    const uint8_t* base = nullptr;
    size_t bytes = 0;
    size_t page_bytes = 0;
  };
  Area area_of(const Range& range) const;
  void hold_window();
  Status register_area(Range& range);
  void unregister_area(Range& range);
  Status make_reachable(Range& range);
  Status map(Range& range);
  void unmap(Range& range);
  static void unmap_vfio(Range& range);
  Status map_for_driver(Range& range, rte_device* device);
  void unmap_by_driver(const Range& range, rte_device* device);
  Status map_for(Range& range, rte_device* device, Reach reach);
  void refuse_optional();
  /// REQUIRES: the lock of ranges.
  Range* find(const uint8_t* base);

  /// Who maps or unmaps memory shares it, who adds or removes a device has it alone. The list of
  /// ranges changes only under a share of it. Taken before mutex_.
  std::shared_mutex devices_mutex_;
  /// One removal by a driver at a time: mlx5_common_dev_dma_unmap() changes the driver's list under
  /// a lock that readers share. Its additions take that lock for themselves. Taken last.
  std::mutex driver_mutex_;
  /// Of area_users_; held while DPDK registers an area. Taken last, never with driver_mutex_.
  std::mutex areas_mutex_;
  /// Of ranges_, its list, users and status, and of pools_only_devices_.
  std::mutex mutex_;
  bool is_physical_ = false;
  uint32_t vfio_devices_ = 0;
  uint32_t pools_only_devices_ = 0;
  std::vector<rte_device*> driver_devices_;
  std::span<const uint8_t> window_;
  Range held_window_;  ///< mapped for no device
  /// By base of a registered area: the ranges in it.
  std::unordered_map<const uint8_t*, uint32_t> area_users_;
  /// By base. Workers look as well, at each change of a region.
  std::unordered_map<const uint8_t*, Range> ranges_;
};

}  // namespace lyre::io::dpdk
