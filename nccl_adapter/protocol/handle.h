#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "nccl_adapter/abi/common.h"

namespace lyre::nccl_adapter {

using Nonce = std::array<uint8_t, 16>;
/// Network order, IPv4 mapped; all zeros: none.
using Address = std::array<uint8_t, 16>;

/// The range of protocol versions this library speaks.
inline constexpr uint16_t kProtocolVersionMin = 2;
inline constexpr uint16_t kProtocolVersionMax = 4;

inline constexpr size_t kHostNameBytes = 64;
/// A handle has less room.
inline constexpr size_t kHandleHostBytes = 32;
inline constexpr size_t kHandleOthersMax = 2;

/// Where the ports of a handle's addresses are in the order of their host's ports. Each is one more
/// than the index, kHandlePlaceMax at most; 0: not told, as by older plugins.
struct HandlePlaces {
  uint8_t first = 0;                               ///< of the handle's `address`
  std::array<uint8_t, kHandleOthersMax> others{};  ///< of its `others`
  uint8_t ports = 0;                               ///< how many that host tells of
  friend bool operator==(const HandlePlaces&, const HandlePlaces&) = default;
};
inline constexpr uint8_t kHandlePlaceMax = 15;

/// What listen() writes into NCCL's 128 bytes and the peer's connect() reads.
struct Handle {
  uint16_t version_min = kProtocolVersionMin;
  uint16_t version_max = kProtocolVersionMax;
  Address address{};
  std::array<Address, kHandleOthersMax> others{};  ///< of that port and of others of that host
  HandlePlaces places{};                           ///< of the ports that have these addresses
  uint16_t port = 0;
  uint32_t pid = 0;
  Nonce nonce{};     ///< which listen() of that process
  std::string host;  ///< for messages; cut to kHandleHostBytes - 1
};

using HandleBytes = std::span<uint8_t, nccl_abi::kHandleBytesMax>;

enum class HandleFault { kNone, kForeign, kVersion, kDamaged };

void encode(const Handle& handle, HandleBytes out);

/// Fails: kForeign: another plugin wrote it; kVersion: no common protocol version (`out` holds what
/// could be read); kDamaged: ours, but its checksum is wrong.
HandleFault decode(std::span<const uint8_t, nccl_abi::kHandleBytesMax> in, Handle* out);

/// The connecting side's own note in the buffer, which NCCL keeps between calls of connect();
/// 0 in a handle that no connect() has seen.
uint64_t get_connect_note(std::span<const uint8_t, nccl_abi::kHandleBytesMax> in);
void set_connect_note(HandleBytes out, uint64_t note);

/// Names what a foreign handle may be: the socket address that NCCL's own transport starts with, or
/// the first bytes.
std::string describe_foreign(std::span<const uint8_t, nccl_abi::kHandleBytesMax> in);

}  // namespace lyre::nccl_adapter
