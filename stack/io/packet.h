#pragma once

#include <cstdint>
#include <span>

#include "stack/base/buf_ref.h"
#include "stack/base/nanos.h"

namespace lyre::io {

/// The maximum number of pieces of client memory in one packet, after its headers.
inline constexpr uint32_t kTxPiecesMax = 6;

inline constexpr uint32_t kEthernetHeaderBytes = 14;

/// A port's verdict on a received checksum.
enum class ChecksumVerdict : uint8_t { kUnknown, kGood, kBad };

/// One packet, in whichever memory its bytes are.
/// Owner: exactly one holder at a time. rx_burst and alloc return it to the caller; tx_burst and
/// release take it.
/// Thread: the worker whose memory it came from.
/// A received packet is contiguous: [data, data + length). Exception: a super-packet, larger than
/// the MTU, which only ports give that are set up for it. It fills several packets of the receive
/// pool, chained by `next_slot`; the first has all its headers and describes it.
/// A packet to be sent is those bytes (headers, maybe a small payload) followed by `piece_count`
/// pieces of client memory.
struct PacketBuf {
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  uint8_t* data = nullptr;  ///< first valid byte
  uint32_t length = 0;      ///< valid bytes at data
  uint32_t slot = 0;        ///< index in the receive pool; kNoSlot for transmit buffers
  uint16_t headroom = 0;    ///< free bytes before data
  uint16_t tailroom = 0;    ///< free bytes after data + length
  uint8_t port = 0;         ///< receive: index of the port in the worker
  ChecksumVerdict ip_checksum = ChecksumVerdict::kUnknown;  ///< receive: the port's verdict
  ChecksumVerdict l4_checksum = ChecksumVerdict::kUnknown;
  uint8_t piece_count = 0;  ///< transmit: pieces after the packet's own bytes
  uint32_t flow_hash = 0;   ///< receive: RSS hash, 0 when the port gives none
  /// Receive: the packet with the bytes that follow, and for the holder the one whose payload does.
  uint32_t next_slot = kNoSlot;
  uint32_t rest_bytes = 0;  ///< receive: in the packets that follow by next_slot
  uint16_t rest_slots = 0;  ///< receive: how many these are; not 0 in a super-packet's first

  /// Transmit: requests that the IPv4 header and TCP checksums are completed. The TCP field must
  /// hold the folded pseudo-header sum, the IPv4 field 0. A backend without this offload does it in
  /// software.
  bool wants_checksums = false;
  uint8_t l3_bytes = 0;    ///< transmit: IP header length (Ethernet is always 14)
  uint8_t l4_bytes = 0;    ///< transmit: TCP header length
  uint16_t tso_bytes = 0;  ///< transmit: payload bytes a segment; 0: do not segment

  BufRef pieces[kTxPiecesMax];

  /// The first packet of a chain that a port received as one.
  bool is_super_packet() const { return rest_slots > 0; }
  /// Transmit: with its pieces.
  uint32_t total_bytes() const {
    uint32_t bytes = length;
    for (uint32_t i = 0; i < piece_count; ++i) bytes += pieces[i].length;
    return bytes;
  }
  /// Transmit: the port must segment it. One that fits one wire packet is not TSO, even with
  /// tso_bytes.
  bool is_tso() const {
    return tso_bytes > 0 && total_bytes() > kEthernetHeaderBytes + l3_bytes + l4_bytes + tso_bytes;
  }
  std::span<uint8_t> bytes() { return {data, length}; }
  std::span<const uint8_t> bytes() const { return {data, length}; }
  /// Extends the packet by `count` bytes at the front and returns their start. REQUIRES: count <=
  /// headroom.
  uint8_t* push_front(uint16_t count) {
    data -= count;
    headroom = static_cast<uint16_t>(headroom - count);
    length += count;
    return data;
  }
  /// Cuts `count` bytes off the front. REQUIRES: count <= length.
  void pop_front(uint16_t count) {
    data += count;
    headroom = static_cast<uint16_t>(headroom + count);
    length -= count;
  }
};

}  // namespace lyre::io
