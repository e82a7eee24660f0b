#pragma once

#include <cstdint>
#include <span>
#include <string>

/// Blocks of a pcapng file (draft-ietf-opsawg-pcapng), in the byte order of this machine. libpcap
/// reads pcapng and cannot write it. A file has, in this order: a section header, one interface,
/// its packets, and its statistics.
namespace lyre::tools::pcapng {

enum class Direction : uint32_t { kReceived = 1, kSent = 2 };

struct Interface {
  std::string name;
  std::string filter;       ///< empty: none
  uint32_t snap_bytes = 0;  ///< of each packet are kept at most
};

struct PacketInfo {
  int64_t unix_ns = 0;
  uint32_t packet_bytes = 0;  ///< of the whole packet
  Direction direction = Direction::kReceived;
};

struct Statistics {
  int64_t begin_unix_ns = 0;
  int64_t end_unix_ns = 0;
  uint64_t received = 0;  ///< packets that passed the interface
  uint64_t dropped = 0;   ///< of those, lost for want of room
  uint64_t accepted = 0;  ///< of those, taken by the filter
};

/// Each returns a whole block.
std::string section_header(const std::string& application);
/// Of an Ethernet interface with time stamps of nanoseconds.
std::string interface_description(const Interface& interface);
/// REQUIRES: bytes.size() <= info.packet_bytes.
std::string enhanced_packet(const PacketInfo& info, std::span<const uint8_t> bytes);
std::string interface_statistics(const Statistics& statistics);

}  // namespace lyre::tools::pcapng
