#pragma once

#include <cstdint>

#include "daemon/context_registry.h"
#include "stack/base/nanos.h"

namespace lyre {

/// The end of a daemon: every worker resets its sessions, within a time.
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

  /// Asks the workers; their answers are taken by ContextRegistry::poll(). Once.
  void begin(Nanos now);
  bool has_begun() const { return deadline_ != kNever; }
  State state(Nanos now) const;

 private:
  ContextRegistry& registry_;
  Nanos deadline_ = kNever;
};

}  // namespace lyre
