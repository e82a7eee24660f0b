#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/drop_reasons.h"
#include "stack/base/mac_address.h"
#include "stack/wire/bytes.h"

namespace lyre::wire {

inline constexpr uint16_t kEthernetHeaderBytes = 14;

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeArp = 0x0806;
inline constexpr uint16_t kEtherTypeVlan = 0x8100;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86dd;

/// IEEE 802.1Q: a tag is between the addresses and the type.
inline constexpr uint16_t kVlanTagBytes = 4;
inline constexpr uint16_t kVlanIdMask = 0x0fff;

struct EthernetHeader {
  MacAddress destination;
  MacAddress source;
  uint16_t type = 0;  ///< host order
};

/// Fails: kEthTooShort.
std::optional<EthernetHeader> parse_ethernet(std::span<const uint8_t> frame, Drop& drop);

/// IEEE 802.1Q: a tag with VLAN ID 0 names no VLAN. The frame has a priority, and is otherwise an
/// untagged one.
inline bool is_priority_tagged(std::span<const uint8_t> frame) {
  if (frame.size() < kEthernetHeaderBytes + kVlanTagBytes) return false;
  return read_be16(frame.data() + 12) == kEtherTypeVlan &&
         (read_be16(frame.data() + 14) & kVlanIdMask) == 0;
}

void write_ethernet(const EthernetHeader& header, std::span<uint8_t, kEthernetHeaderBytes> out);

}  // namespace lyre::wire
