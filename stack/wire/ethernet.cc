#include "stack/wire/ethernet.h"

#include <cstring>

namespace lyre::wire {

std::optional<EthernetHeader> parse_ethernet(std::span<const uint8_t> frame, Drop& drop) {
  if (frame.size() < kEthernetHeaderBytes) {
    drop = Drop::kEthTooShort;
    return std::nullopt;
  }
  EthernetHeader header;
  std::memcpy(header.destination.bytes.data(), frame.data(), 6);
  std::memcpy(header.source.bytes.data(), frame.data() + 6, 6);
  header.type = read_be16(frame.data() + 12);
  return header;
}

void write_ethernet(const EthernetHeader& header, std::span<uint8_t, kEthernetHeaderBytes> out) {
  std::memcpy(out.data(), header.destination.bytes.data(), 6);
  std::memcpy(out.data() + 6, header.source.bytes.data(), 6);
  write_be16(out.data() + 12, header.type);
}

}  // namespace lyre::wire
