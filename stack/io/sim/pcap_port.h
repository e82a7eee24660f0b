#pragma once

#include <cstdint>
#include <cstdio>

#include "stack/base/nanos.h"
#include "stack/io/packet_io.h"

namespace lyre::io::sim {

/// Writes what passes a queue to a pcap file (nanosecond format), for tshark and people. Works over
/// any backend. Of a sent packet the run is kept and the pieces count in its original length; the
/// receiving side's file has all bytes.
/// Owner: closes the file, borrows the queue. Thread: the queue's.
class PcapPort final : public PacketIo {
 public:
  /// Fails: a path that cannot be written leaves the port working and is_open() false.
  PcapPort(PacketIo& inner, const char* path);
  ~PcapPort() override;
  PcapPort(const PcapPort&) = delete;
  PcapPort& operator=(const PcapPort&) = delete;

  bool is_open() const { return file_ != nullptr; }
  /// The time of what passes from here on.
  void set_now(Nanos now) { now_ = now; }

  size_t rx_burst(std::span<PacketBuf*> out) override;
  size_t tx_burst(std::span<PacketBuf* const> in) override;
  void reclaim() override { inner_.reclaim(); }
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
