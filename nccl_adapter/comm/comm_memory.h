#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "nccl_adapter/comm/queue_pairs.h"
#include "nccl_adapter/transport/environment.h"
#include "nccl_adapter/transport/lanes.h"

namespace lyre::nccl_adapter {

/// A region that NCCL registered.
struct Registration {
  const uint8_t* base;
  uint64_t bytes;
  Memory* memory;               ///< nullptr: the receives there are not exposed
  std::unique_ptr<Memory> own;  ///< the same, of a receiving comm: the daemon does not know it
};

/// The memory that NCCL registered on one comm. The pointers are borrowed for its life.
/// Thread: under the instance's lock. Owner: the comm.
class CommMemory {
 public:
  /// What a comm lends it.
  struct Ground {
    Environment* environment;
    const Lanes* streams;
    QueuePairs* queue_pairs;
    std::function<void(Lane&)> drop;  ///< how the comm drops a lane
  };

  explicit CommMemory(Ground ground) : ground_(std::move(ground)) {}

  /// Owner: valid until its release.
  Registration* add(const void* data, uint64_t bytes, bool is_sender);
  bool has(const Registration* registration) const;
  /// Whether its release now would cost a stream or a queue pair: what was sent from there is not
  /// acknowledged. Sends what waits for room. REQUIRES: has().
  bool is_read(const Registration& registration) const;
  /// After this the memory is not read. REQUIRES: has().
  void release(const Registration* registration);
  void release_all();

 private:
  bool is_blocked_in(const lyre_region* region) const;
  void let_go(const Registration& registration);

  Ground ground_;
  std::vector<std::unique_ptr<Registration>> all_;
};

}  // namespace lyre::nccl_adapter
