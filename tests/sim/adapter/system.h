#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nccl_adapter/protocol/handle.h"

/// The edges of the adapter in the simulator: nccl_adapter/daemon_link/system.h and
/// progress_thread.h are implemented over these.
namespace lyre::adapter_sim {

struct System {
  virtual ~System() = default;
  virtual int64_t now_ns() = 0;
  /// Lets the rest of the world go on meanwhile.
  virtual void sleep(int64_t ns) = 0;
  virtual nccl_adapter::Nonce nonce() = 0;
  virtual std::string host_name() = 0;
  virtual uint32_t process_id() = 0;
  /// Of the process that is running: what its progress thread does; nullptr: it is gone.
  virtual void set_progress(const void* thread, const std::function<void()>* work) = 0;
};

void set_system(System* system);

}  // namespace lyre::adapter_sim
