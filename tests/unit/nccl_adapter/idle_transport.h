#pragma once

#include <span>

#include "nccl_adapter/transport/transport.h"

namespace lyre::nccl_adapter {

/// A transport that takes what it is given and receives nothing: what a test plays it overrides.
class IdleTransport : public Transport {
 public:
  void set_owner(SessionOwner*) override {}
  bool has_ended() const override { return false; }
  int error() const override { return 0; }
  void close() override {}
  void abort() override {}
  Io send_small(std::span<const uint8_t>) override { return Io::kOk; }
  Io flush() override { return Io::kOk; }
  Io send_chunk(const Chunk&) override { return Io::kOk; }
  uint64_t unacked_bytes() const override { return 0; }
  uint64_t rtt_min_us() const override { return 0; }
  int64_t patience_ns() const override { return 0; }
  bool is_window_closed() const override { return false; }
  bool is_blocked() const override { return false; }
  bool is_blocked_in(const lyre_region*) const override { return false; }

 protected:
  Io take_slices(std::span<lyre_slice>, size_t*) override { return Io::kAgain; }
  void give_back(std::span<const lyre_slice>) override {}
};

}  // namespace lyre::nccl_adapter
