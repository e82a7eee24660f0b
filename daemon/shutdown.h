#pragma once

#include <cstdint>

#include "daemon/control/context_registry.h"
#include "stack/base/nanos.h"

namespace lyre {

/// The stop of a daemon: every worker resets its sessions within kShutdownTimeout.
/// Thread: the control thread. Owner: borrows the registry.
class Shutdown {
 public:
  enum class State : uint8_t {
    kNotAsked,
    kWaiting,   ///< for workers
    kComplete,  ///< all have reset their sessions
    kOverdue    ///< some have not in time
  };

  explicit Shutdown(ContextRegistry& registry) : registry_(registry) {}

  /// Asks the workers; ContextRegistry::poll() takes their answers. REQUIRES: called once.
  void begin(Nanos now);
  bool has_begun() const { return deadline_ != kNever; }
  State state(Nanos now) const;

 private:
  ContextRegistry& registry_;
  Nanos deadline_ = kNever;
};

}  // namespace lyre
