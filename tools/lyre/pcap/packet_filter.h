#pragma once

#include <pcap/pcap.h>

#include <cstdint>
#include <span>
#include <string>

namespace lyre::tools {

/// A filter of libpcap (pcap-filter(7)) on Ethernet packets.
class PacketFilter {
 public:
  /// An empty expression takes every packet. Fails: throws Failure with what libpcap says.
  explicit PacketFilter(const std::string& expression);
  ~PacketFilter();
  PacketFilter(const PacketFilter&) = delete;
  PacketFilter& operator=(const PacketFilter&) = delete;

  /// Whether it takes the packet, of whose `packet_bytes` these are the first.
  bool takes(std::span<const uint8_t> bytes, uint32_t packet_bytes) const;
  bool is_empty() const { return program_.bf_insns == nullptr; }

 private:
  bpf_program program_{};
};

}  // namespace lyre::tools
