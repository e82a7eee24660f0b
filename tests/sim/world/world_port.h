#pragma once

#include <cstdint>
#include <vector>

#include "stack/io/packet_io.h"
#include "stack/io/sim/memory.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

namespace lyre::sim {

/// A port's queue in the simulator. It keeps a hash of all sent packets, and acts as a router
/// before a link with a smaller MTU, which drops packets that do not fit and reports that by ICMP,
/// or not.
/// Owner: borrows queue and memory. Thread: the world's.
class WorldPort final : public io::PacketIo {
 public:
  WorldPort(io::PacketIo& inner, io::sim::Memory& memory) : inner_(inner), memory_(&memory) {}

  void move_to(io::sim::Memory& memory) { memory_ = &memory; }

  void set_now(Nanos now) { now_ = now; }
  /// 0: the port's own MTU. `is_silent`: a black hole, which sends no ICMP.
  void set_path_mtu(uint32_t bytes, bool is_silent) {
    path_mtu_bytes_ = bytes;
    is_silent_ = is_silent;
  }
  uint64_t trace_hash() const { return trace_hash_; }
  uint64_t too_big_count() const { return too_big_count_; }

  size_t rx_burst(std::span<io::PacketBuf*> out) override;
  size_t tx_burst(std::span<io::PacketBuf* const> in) override;
  void reclaim() override { inner_.reclaim(); }
  size_t tx_held() const override { return inner_.tx_held(); }
  const io::IoCapabilities& capabilities() const override { return inner_.capabilities(); }
  io::IoCounters counters() const override { return inner_.counters(); }
  bool is_link_up() const override { return inner_.is_link_up(); }
  int wait_fd() const override { return -1; }

  bool has_messages() const { return !messages_.empty(); }

 private:
  bool fits(const io::PacketBuf& packet) const;
  /// The minimum MTU of IPv6, where the path's MTU is smaller.
  uint32_t path_mtu6_bytes() const;
  void complain(const io::PacketBuf& packet);
  void write_too_big(std::span<const uint8_t> quoted,
                     std::span<uint8_t, wire::kIpv4HeaderBytesMin> ip,
                     std::span<uint8_t> icmp) const;
  void write_too_big6(std::span<const uint8_t> quoted,
                      std::span<uint8_t, wire::kIpv6HeaderBytes> ip, std::span<uint8_t> icmp) const;
  void trace(const io::PacketBuf& packet);

  io::PacketIo& inner_;
  io::sim::Memory* memory_;
  Nanos now_;
  uint32_t path_mtu_bytes_ = 0;
  bool is_silent_ = false;
  uint64_t trace_hash_ = 0xcbf29ce484222325u;
  uint64_t too_big_count_ = 0;
  std::vector<std::vector<uint8_t>> messages_;  ///< ICMP messages that the next rx_burst() returns
};

}  // namespace lyre::sim
