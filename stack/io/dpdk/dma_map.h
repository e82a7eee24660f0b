#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

struct rte_device;

namespace lyre::io::dpdk {

/// Which memory the DMA devices of this process may reach by its virtual address. Without such
/// devices, or with physical addresses, there is nothing to do and nothing is done.
/// Thread: any. It is the one thing that workers share here, because the IOMMU's map is one for the
/// process and several workers may know the same client memory; hence a lock, which is only taken
/// when memory comes or goes, never for a packet.
class DmaMap {
 public:
  /// Maps all that is known for `device` too, and everything that comes later.
  /// False: the device cannot reach memory that is in use already.
  bool add_device(rte_device* device, bool is_vfio);
  void remove_device(rte_device* device, bool is_vfio);
  /// Thread: the control thread decides before any worker runs.
  void set_physical_addresses(bool is_physical) { is_physical_ = is_physical; }

  /// False: no device will read it; the caller copies instead.
  bool add(const uint8_t* base, size_t bytes, size_t page_bytes);
  void remove(const uint8_t* base, size_t bytes);

 private:
  struct Range {
    const uint8_t* base;
    size_t bytes;
    size_t page_bytes;
    uint32_t users;
    bool is_in_vfio;     ///< in the container that all VFIO devices of the process share
    bool is_registered;  ///< known to DPDK as external memory, which other drivers ask for
  };
  bool map(Range& range);
  void unmap(Range& range);
  static void unmap_vfio(Range& range);
  bool map_for_driver(Range& range, rte_device* device);
  Range* find(const uint8_t* base);

  std::mutex mutex_;
  bool is_physical_ = false;
  uint32_t vfio_devices_ = 0;
  std::vector<rte_device*> driver_devices_;
  std::vector<Range> ranges_;
};

}  // namespace lyre::io::dpdk
