#pragma once

#include <cstdint>
#include <cstdio>

#include "stack/base/nanos.h"
#include "stack/io/packet_io.h"

namespace lyre::io::sim {

/// Writes the packets of a queue to a pcap file (nanosecond format), for tshark. Works over any
/// backend. Of a sent packet the file has the packet's own bytes; pieces only count in its original
/// length. The receiving side's file has all bytes.
/// Owner: closes the file, borrows the queue. Thread: the queue's.
class PcapPort final : public PacketIo {
 public:
  /// Fails: if the path cannot be written, the port works and is_open() is false.
  PcapPort(PacketIo& inner, const char* path);
  ~PcapPort() override;
  PcapPort(const PcapPort&) = delete;
  PcapPort& operator=(const PcapPort&) = delete;

  bool is_open() const { return file_ != nullptr; }
  /// Sets the timestamp of the packets that follow.
  void set_now(Nanos now) { now_ = now; }

  size_t rx_burst(std::span<PacketBuf*> out) override;
  size_t tx_burst(std::span<PacketBuf* const> in) override;
  bool has_unsent() const override { return inner_.has_unsent(); }
  void reclaim() override { inner_.reclaim(); }
  size_t tx_held() const override { return inner_.tx_held(); }
  const IoCapabilities& capabilities() const override { return inner_.capabilities(); }
  IoCounters counters() const override { return inner_.counters(); }
  bool is_link_up() const override { return inner_.is_link_up(); }
  int wait_fd() const override { return inner_.wait_fd(); }

 private:
  void write(const PacketBuf& packet);

  PacketIo& inner_;
  std::FILE* file_;
  Nanos now_;
};

}  // namespace lyre::io::sim
