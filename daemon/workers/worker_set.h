#pragma once

#include <cstdint>

#include "stack/base/result.h"
#include "stack/worker/inbox.h"

namespace lyre {

/// The workers as the control thread sees them. Thread: the control thread.
class WorkerSet {
 public:
  virtual ~WorkerSet() = default;

  virtual uint32_t count() const = 0;
  /// Posts a command and wakes the worker. False: its inbox is full, try later.
  virtual bool try_post(uint32_t worker, const worker::Command& command) = 0;
  /// Takes the next answer of a worker. False: there is none.
  virtual bool try_take(uint32_t worker, worker::Reply& out) = 0;
  /// From now on a write to the eventfd `ring_fd` wakes the worker.
  /// Owner: the caller keeps it open until unwatch().
  virtual Status watch(uint32_t worker, int ring_fd) = 0;
  virtual void unwatch(uint32_t worker, int ring_fd) = 0;
};

}  // namespace lyre
