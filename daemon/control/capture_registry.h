#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/base/shared_memory.h"
#include "daemon/workers/worker_set.h"
#include "stack/channel/abi.h"
#include "stack/channel/capture.h"
#include "stack/worker/port_capture.h"

namespace lyre {

/// Captures of ports: the rings into which workers copy packets, one for each worker.
/// Thread: the control thread. Owner: rings live until every worker has answered kCaptureEnded, or
/// until this object ends, which needs workers that are gone.
class CaptureRegistry {
 public:
  using Post = std::function<void(uint32_t worker, const worker::Command&)>;
  using Id = uint64_t;

  CaptureRegistry(uint32_t worker_count, Post post)
      : worker_count_(worker_count), post_(std::move(post)) {}

  /// A capture that has begun. The descriptor is borrowed until end().
  struct Grant {
    Id id = 0;
    int memory_fd = -1;  ///< of channel::CaptureRing[worker_count]
  };
  /// Makes the rings and tells every worker. At most `snap_bytes` of each packet are copied.
  /// Fails: EBUSY the port is captured already, or workers have not let go of too many captures
  /// before; or the errno of what the system refused.
  Result<Grant> begin(uint32_t port, uint32_t snap_bytes);
  /// Tells every worker to stop; the rings are freed when all have. REQUIRES: begin() returned it,
  /// and this is the first call for it.
  void end(Id id);
  /// A worker answered kCaptureEnded.
  void on_reply(uint32_t worker, const worker::Reply& reply);

  /// Captures whose rings exist.
  size_t held_count() const { return captures_.size(); }

 private:
  struct Capture {
    Id id = 0;
    uint32_t port = 0;
    bool is_ending = false;
    SharedMemory memory;
    std::vector<worker::PortCapture> of_worker;
    std::bitset<channel::kWorkersMax> held_by;  ///< workers that have not answered kCaptureEnded
  };
  Status check_room(uint32_t port) const;
  void tell_workers(Capture& capture, worker::Command::Kind kind);

  const uint32_t worker_count_;
  const Post post_;
  std::vector<std::unique_ptr<Capture>> captures_;
  Id next_id_ = 1;
};

}  // namespace lyre
