#include "stack/wire/arp.h"

#include <cstring>

#include "stack/wire/bytes.h"
#include "stack/wire/ethernet.h"

namespace lyre::wire {
namespace {

constexpr uint16_t kHardwareEthernet = 1;

bool is_ethernet_ipv4(const uint8_t* at) {
  return read_be16(at) == kHardwareEthernet && read_be16(at + 2) == kEtherTypeIpv4 && at[4] == 6 &&
         at[5] == 4;
}

}  // namespace

std::optional<ArpPacket> parse_arp(std::span<const uint8_t> bytes, Drop& drop) {
  drop = Drop::kArpMalformed;
  if (bytes.size() < kArpBytes || !is_ethernet_ipv4(bytes.data())) return std::nullopt;
  const uint8_t* at = bytes.data();
  const uint16_t operation = read_be16(at + 6);
  if (operation != 1 && operation != 2) return std::nullopt;
  ArpPacket packet;
  packet.operation = static_cast<ArpOperation>(operation);
  std::memcpy(packet.sender_mac.bytes.data(), at + 8, 6);
  packet.sender_ip = IpAddress::v4(read_be32(at + 14));
  std::memcpy(packet.target_mac.bytes.data(), at + 18, 6);
  packet.target_ip = IpAddress::v4(read_be32(at + 24));
  return packet;
}

void write_arp(const ArpPacket& packet, std::span<uint8_t, kArpBytes> out) {
  uint8_t* at = out.data();
  write_be16(at, kHardwareEthernet);
  write_be16(at + 2, kEtherTypeIpv4);
  at[4] = 6;
  at[5] = 4;
  write_be16(at + 6, static_cast<uint16_t>(packet.operation));
  std::memcpy(at + 8, packet.sender_mac.bytes.data(), 6);
  write_be32(at + 14, packet.sender_ip.as_v4());
  std::memcpy(at + 18, packet.target_mac.bytes.data(), 6);
  write_be32(at + 24, packet.target_ip.as_v4());
}

}  // namespace lyre::wire
