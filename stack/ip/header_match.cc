#include "stack/ip/header_match.h"

#include <cstring>

#include "stack/wire/bytes.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/tcp_segment.h"

namespace lyre::ip {
namespace {

constexpr size_t kIpAt = wire::kEthernetHeaderBytes;
constexpr size_t kTcpAt = kIpAt + wire::kIpv4HeaderBytesMin;
constexpr size_t kLengthAt = kIpAt + 2;
constexpr size_t kFragmentAt = kIpAt + 6;
constexpr size_t kIpChecksumAt = kIpAt + 10;
constexpr size_t kAddressesAt = kIpAt + 12;
constexpr size_t kSeqAt = kTcpAt + 4;
constexpr size_t kAckAt = kTcpAt + 8;
constexpr size_t kTcpChecksumAt = kTcpAt + 16;
constexpr size_t kUrgentAt = kTcpAt + 18;
constexpr uint8_t kVersionAndLength = 0x45;

bool is_equal(const uint8_t* frame, const uint8_t* headers, size_t from, size_t to) {
  return std::memcmp(frame + from, headers + from, to - from) == 0;
}

bool has_good_checksums(const io::PacketBuf& packet, size_t ip_bytes) {
  using io::ChecksumVerdict;
  const std::span<const uint8_t> ip = packet.bytes().subspan(kIpAt, ip_bytes);
  if (packet.ip_checksum == ChecksumVerdict::kBad || packet.l4_checksum == ChecksumVerdict::kBad) {
    return false;
  }
  if (packet.ip_checksum == ChecksumVerdict::kUnknown &&
      !wire::ipv4_checksum_ok(ip.first(wire::kIpv4HeaderBytesMin))) {
    return false;
  }
  if (packet.l4_checksum == ChecksumVerdict::kGood) return true;
  return wire::tcp_checksum_ok(IpAddress::v4(wire::read_be32(ip.data() + 12)),
                               IpAddress::v4(wire::read_be32(ip.data() + 16)),
                               ip.subspan(wire::kIpv4HeaderBytesMin));
}

}  // namespace

bool can_match_headers(std::span<const uint8_t> headers) {
  return headers.size() >= kTcpAt + wire::kTcpHeaderBytesMin && headers[kIpAt] == kVersionAndLength;
}

bool header_match(const io::PacketBuf& packet, std::span<const uint8_t> headers, SeqNum seq,
                  std::span<const uint8_t>& payload) {
  const uint8_t* frame = packet.data;
  // The sequence number differs between most streams, so it is compared first: most mismatches end
  // here.
  if (packet.length <= headers.size() || wire::read_be32(frame + kSeqAt) != seq.raw()) return false;
  const size_t ip_bytes = wire::read_be16(frame + kLengthAt);
  if (ip_bytes <= headers.size() - kIpAt || ip_bytes > packet.length - kIpAt) return false;
  const bool has_same_headers = is_equal(frame, headers.data(), 0, kLengthAt) &&
                                is_equal(frame, headers.data(), kFragmentAt, kIpChecksumAt) &&
                                is_equal(frame, headers.data(), kAddressesAt, kSeqAt) &&
                                is_equal(frame, headers.data(), kAckAt, kTcpChecksumAt) &&
                                is_equal(frame, headers.data(), kUrgentAt, headers.size());
  if (!has_same_headers || !has_good_checksums(packet, ip_bytes)) return false;
  payload = {frame + headers.size(), ip_bytes - (headers.size() - kIpAt)};
  return true;
}

}  // namespace lyre::ip
