#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"

namespace lyre::wire {

inline constexpr uint16_t kArpBytes = 28;

enum class ArpOperation : uint16_t { kRequest = 1, kReply = 2 };

/// RFC 826 for Ethernet and IPv4.
struct ArpPacket {
  ArpOperation operation = ArpOperation::kRequest;
  MacAddress sender_mac;
  IpAddress sender_ip;
  MacAddress target_mac;
  IpAddress target_ip;
};

/// Reads what follows the Ethernet header and ignores padding after the packet.
/// Fails: kArpMalformed for a packet that is short, not Ethernet/IPv4, or neither request nor
/// reply.
std::optional<ArpPacket> parse_arp(std::span<const uint8_t> bytes, Drop& drop);

/// REQUIRES: both addresses are IPv4.
void write_arp(const ArpPacket& packet, std::span<uint8_t, kArpBytes> out);

}  // namespace lyre::wire
