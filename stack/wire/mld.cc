#include "stack/wire/mld.h"

#include <algorithm>

#include "stack/base/check.h"
#include "stack/base/ipv6_address.h"
#include "stack/wire/bytes.h"

namespace lyre::wire {
namespace {

constexpr size_t kVersion1Bytes = 24;
constexpr size_t kVersion2BytesMin = 28;
/// RFC 3810 5.2.12: the record types that a listener needs that excludes no source.
constexpr uint8_t kModeIsExclude = 2;
constexpr uint8_t kChangeToExclude = 4;

/// RFC 3810 5.1.3: codes from 32768 on are a floating-point number.
uint32_t response_ms(uint16_t code) {
  if (code < 0x8000) return code;
  const uint32_t mantissa = code & 0xfff;
  const uint32_t exponent = code >> 12 & 7;
  return (mantissa | 0x1000) << (exponent + 3);
}

void put_address(const IpAddress& address, uint8_t* at) {
  std::copy(address.bytes.begin(), address.bytes.end(), at);
}

}  // namespace

std::optional<MldQuery> parse_mld_query(const AddressPair& addresses, uint8_t hop_limit,
                                        std::span<const uint8_t> message, Drop& drop) {
  drop = Drop::kIcmpMalformed;
  // RFC 3810 8.1: the length determines the version.
  const bool is_length_known =
      message.size() == kVersion1Bytes || message.size() >= kVersion2BytesMin;
  if (!is_length_known || message[0] != kMldQuery || hop_limit != kMldHopLimit) return std::nullopt;
  if (!is_ipv6_link_local(addresses.source)) return std::nullopt;
  MldQuery out;
  out.is_version1 = message.size() == kVersion1Bytes;
  const uint16_t code = read_be16(message.data() + 4);
  out.response_ms_max = out.is_version1 ? code : response_ms(code);
  std::copy_n(message.data() + 8, 16, out.group.bytes.begin());
  if (!out.group.is_unspecified() && !is_ipv6_multicast(out.group)) return std::nullopt;
  return out;
}

uint16_t write_mld_report(const MldReport& report, const AddressPair& addresses,
                          std::span<uint8_t> out) {
  LYRE_CHECK(out.size() >= kMldBytesMax);
  // RFC 2711 2.1: a router alert, value 0, and padding.
  constexpr uint8_t kRouterAlert[8] = {kIpProtocolIcmpv6, 0, 5, 2, 0, 0, 1, 0};
  std::copy(std::begin(kRouterAlert), std::end(kRouterAlert), out.begin());
  const uint16_t bytes = report.is_version1 ? 24 : 28;
  const std::span<uint8_t> message = out.subspan(sizeof kRouterAlert, bytes);
  std::fill(message.begin(), message.end(), uint8_t{0});
  uint8_t* at = message.data();
  if (report.is_version1) {
    at[0] = kMldReportV1;
    put_address(report.group, at + 8);
  } else {
    at[0] = kMldReportV2;
    write_be16(at + 6, 1);  // one record
    at[8] = report.is_change ? kChangeToExclude : kModeIsExclude;
    put_address(report.group, at + 12);
  }
  complete_icmpv6(addresses, message);
  return static_cast<uint16_t>(sizeof kRouterAlert + bytes);
}

}  // namespace lyre::wire
