#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stack/io/dpdk/driver_calls.h"
#include "stack/io/dpdk/rx_wait.h"

namespace lyre::io::dpdk {

/// The interrupt of a memif receive ring. In the memif protocol a sender writes to the ring's
/// eventfd unless the ring's receiver has set the flag "no interrupts". DPDK's driver sets that
/// flag and returns neither the ring nor the eventfd. Both are therefore searched among the
/// descriptors of this process once a connection, and the driver itself confirms them: its receive
/// call reads the eventfd exactly while the flag is clear.
/// The peer maps the ring, too. What is read of it decides only whether the search succeeds.
class MemifWait final : public RxWait {
 public:
  struct Ring {
    uint16_t port_id = 0;
    uint16_t queue_id = 0;
    bool is_server = false;
    uint16_t queue_count = 1;  ///< of the port
  };
  explicit MemifWait(const Ring& ring) : ring_(ring) {}
  ~MemifWait() override { forget(); }

  int fd() const override { return edges_.fd(); }
  bool arm() override;
  void disarm() override;
  void clear() override { edges_.clear(); }
  void on_restart() override { forget(); }

 private:
  struct Mapping {
    uint8_t* base = nullptr;
    size_t bytes = 0;
  };
  static constexpr size_t kTrialsMax = 64;               ///< eventfds for one region in one search
  static constexpr uint32_t kArmsSkippedMax = 1u << 12;  ///< between two searches

  bool find();
  bool find_in(int region, const std::vector<int>& eventfds, size_t trials_max);
  bool map(int region);
  bool take(int eventfd);
  bool is_confirmed(int eventfd);
  bool driver_reads(int eventfd);
  void forget();
  bool is_current() const;
  bool is_link_up() const;
  std::atomic_ref<uint16_t> flags() const;

  const Ring ring_;
  DriverCalls calls_;
  EventEdges edges_;
  Mapping mapping_;                ///< of the connection's shared memory, from its first ring on
  uint8_t* found_ring_ = nullptr;  ///< in mapping_; nullptr: not found
  int driver_region_ = -1;         ///< the driver's own descriptor of the memory
  ino_t region_inode_ = 0;
  int eventfd_ = -1;  ///< a duplicate of the driver's
  uint32_t arms_to_skip_ = 0;
  uint32_t next_skip_ = 1;
};

}  // namespace lyre::io::dpdk
