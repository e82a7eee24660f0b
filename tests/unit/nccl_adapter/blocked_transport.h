#pragma once

#include "tests/unit/nccl_adapter/idle_transport.h"

namespace lyre::nccl_adapter {

/// Payload in `region` waits for room.
class BlockedTransport final : public IdleTransport {
 public:
  explicit BlockedTransport(const lyre_region* region) : region_(region) {}
  Io flush() override { return Io::kAgain; }
  bool is_blocked() const override { return true; }
  bool is_blocked_in(const lyre_region* region) const override { return region == region_; }

 private:
  const lyre_region* region_;
};

}  // namespace lyre::nccl_adapter
