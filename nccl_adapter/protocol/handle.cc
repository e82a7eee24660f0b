#include "nccl_adapter/protocol/handle.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>

#include "nccl_adapter/protocol/bytes.h"

namespace lyre::nccl_adapter {
namespace {

constexpr uint64_t kMagic = 0x4c48'4c43'434e'594cull;  // "LYNCCLHL", little endian
constexpr size_t kMagicAt = 0;
constexpr size_t kVersionMinAt = 8;
constexpr size_t kVersionMaxAt = 10;
constexpr size_t kPortAt = 12;
constexpr size_t kPlacesAt = 14;
constexpr size_t kPidAt = 16;
constexpr size_t kChecksumAt = 20;
constexpr size_t kNonceAt = 24;
constexpr size_t kAddressAt = 40;
constexpr size_t kHostAt = 56;
constexpr size_t kOthersAt = kHostAt + kHandleHostBytes;
constexpr size_t kNoteAt = 120;
static_assert(kOthersAt + kHandleOthersMax * sizeof(Address) == kNoteAt);
static_assert(kNoteAt + sizeof(uint64_t) == nccl_abi::kHandleBytesMax);

// FNV-1a over everything but itself and the note: tells damage in the exchange from a bug here.
uint32_t checksum(std::span<const uint8_t> bytes) {
  uint32_t sum = 2166136261u;
  for (size_t i = 0; i < kNoteAt; ++i) {
    const bool is_checksum = i >= kChecksumAt && i < kChecksumAt + sizeof(uint32_t);
    sum = (sum ^ (is_checksum ? 0 : bytes[i])) * 16777619u;
  }
  return sum;
}

// Four bits each. Older plugins write zeros there and do not read them.
uint16_t pack(const HandlePlaces& places) {
  static_assert(kHandleOthersMax == 2);
  return static_cast<uint16_t>(places.first | places.others[0] << 4 | places.others[1] << 8 |
                               places.ports << 12);
}

HandlePlaces unpack(uint16_t bits) {
  const auto at = [&](int shift) { return static_cast<uint8_t>(bits >> shift & kHandlePlaceMax); };
  return {.first = at(0), .others = {at(4), at(8)}, .ports = at(12)};
}

}  // namespace

void encode(const Handle& handle, HandleBytes out) {
  std::fill(out.begin(), out.end(), uint8_t{0});
  put_le<uint64_t>(out, kMagicAt, kMagic);
  put_le<uint16_t>(out, kVersionMinAt, handle.version_min);
  put_le<uint16_t>(out, kVersionMaxAt, handle.version_max);
  put_le<uint16_t>(out, kPortAt, handle.port);
  put_le<uint16_t>(out, kPlacesAt, pack(handle.places));
  put_le<uint32_t>(out, kPidAt, handle.pid);
  std::copy(handle.nonce.begin(), handle.nonce.end(), out.begin() + kNonceAt);
  std::copy(handle.address.begin(), handle.address.end(), out.begin() + kAddressAt);
  put_text(out, kHostAt, kHandleHostBytes - 1, handle.host);
  for (size_t i = 0; i < kHandleOthersMax; ++i) {
    const auto at = static_cast<ptrdiff_t>(kOthersAt + i * sizeof(Address));
    std::copy(handle.others[i].begin(), handle.others[i].end(), out.begin() + at);
  }
  put_le<uint32_t>(out, kChecksumAt, checksum(out));
}

HandleFault decode(std::span<const uint8_t, nccl_abi::kHandleBytesMax> in, Handle* out) {
  if (get_le<uint64_t>(in, kMagicAt) != kMagic) return HandleFault::kForeign;
  if (get_le<uint32_t>(in, kChecksumAt) != checksum(in)) return HandleFault::kDamaged;
  out->version_min = get_le<uint16_t>(in, kVersionMinAt);
  out->version_max = get_le<uint16_t>(in, kVersionMaxAt);
  out->port = get_le<uint16_t>(in, kPortAt);
  out->places = unpack(get_le<uint16_t>(in, kPlacesAt));
  out->pid = get_le<uint32_t>(in, kPidAt);
  std::copy_n(in.begin() + kNonceAt, out->nonce.size(), out->nonce.begin());
  std::copy_n(in.begin() + kAddressAt, out->address.size(), out->address.begin());
  for (size_t i = 0; i < kHandleOthersMax; ++i) {
    const auto at = static_cast<ptrdiff_t>(kOthersAt + i * sizeof(Address));
    std::copy_n(in.begin() + at, sizeof(Address), out->others[i].begin());
  }
  out->host = get_text(in, kHostAt, kHandleHostBytes);
  const bool overlaps =
      out->version_min <= kProtocolVersionMax && out->version_max >= kProtocolVersionMin;
  return overlaps ? HandleFault::kNone : HandleFault::kVersion;
}

uint64_t get_connect_note(std::span<const uint8_t, nccl_abi::kHandleBytesMax> in) {
  return get_le<uint64_t>(in, kNoteAt);
}

void set_connect_note(HandleBytes out, uint64_t note) { put_le<uint64_t>(out, kNoteAt, note); }

std::string describe_foreign(std::span<const uint8_t, nccl_abi::kHandleBytesMax> in) {
  char text[INET6_ADDRSTRLEN] = "";
  const uint16_t port = static_cast<uint16_t>(in[2] << 8 | in[3]);
  // NCCL's own sockets put a sockaddr first.
  uint16_t family = 0;
  std::memcpy(&family, in.data(), sizeof(family));
  if (family == AF_INET && inet_ntop(AF_INET, in.data() + 4, text, sizeof(text)) != nullptr) {
    return "NCCL's own sockets at " + std::string(text) + ":" + std::to_string(port) + ", it seems";
  }
  if (family == AF_INET6 && inet_ntop(AF_INET6, in.data() + 8, text, sizeof(text)) != nullptr) {
    return "NCCL's own sockets at [" + std::string(text) + "]:" + std::to_string(port) +
           ", it seems";
  }
  std::string bytes = "a handle that starts with";
  for (size_t i = 0; i < 8; ++i) {
    std::snprintf(text, sizeof(text), " %02x", in[i]);
    bytes += text;
  }
  return bytes;
}

}  // namespace lyre::nccl_adapter
