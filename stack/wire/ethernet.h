#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/drop_reasons.h"
#include "stack/base/mac_address.h"

namespace lyre::wire {

inline constexpr uint16_t kEthernetHeaderBytes = 14;

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeArp = 0x0806;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86dd;

struct EthernetHeader {
  MacAddress destination;
  MacAddress source;
  uint16_t type = 0;  ///< host order
};

/// Fails: kEthTooShort.
std::optional<EthernetHeader> parse_ethernet(std::span<const uint8_t> frame, Drop& drop);

void write_ethernet(const EthernetHeader& header, std::span<uint8_t, kEthernetHeaderBytes> out);

}  // namespace lyre::wire
