#pragma once

#include "stack/io/packet_io.h"

namespace lyre::test {

/// A queue whose port is up, receives nothing and sends nothing: what a test plays it overrides.
class SilentQueue : public io::PacketIo {
 public:
  size_t rx_burst(std::span<io::PacketBuf*>) override { return 0; }
  size_t tx_burst(std::span<io::PacketBuf* const>) override { return 0; }
  void reclaim() override {}
  size_t tx_held() const override { return 0; }
  const io::IoCapabilities& capabilities() const override { return capabilities_; }
  io::IoCounters counters() const override { return {}; }
  bool is_link_up() const override { return true; }
  int wait_fd() const override { return -1; }

 private:
  io::IoCapabilities capabilities_;
};

}  // namespace lyre::test
