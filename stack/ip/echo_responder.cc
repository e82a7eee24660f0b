#include "stack/ip/echo_responder.h"

#include <algorithm>
#include <cstring>

#include "stack/base/check.h"
#include "stack/wire/icmpv6.h"
#include "stack/wire/ipv4.h"

namespace lyre::ip {
namespace {

constexpr uint16_t kFrontBytesMax =
    wire::kEthernetHeaderBytes + wire::kIpv6HeaderBytes + wire::kIcmpHeaderBytes;

void put_body(std::span<const uint8_t> body, io::PacketBuf& out) {
  if (!body.empty()) std::memcpy(out.data, body.data(), body.size());
  out.length = static_cast<uint32_t>(body.size());
  out.tailroom = static_cast<uint16_t>(out.tailroom - body.size());
  out.push_front(wire::kIcmpHeaderBytes);
}

void push_ipv4(const wire::AddressPair& pair, const link::FrameAddresses& frame, uint16_t ip_id,
               io::PacketBuf& out) {
  wire::Ipv4Header header;
  header.source = pair.source;
  header.destination = pair.destination;
  header.total_bytes = static_cast<uint16_t>(out.length + wire::kIpv4HeaderBytesMin);
  header.id = ip_id;
  header.protocol = wire::kIpProtocolIcmp;
  uint8_t* front = out.push_front(wire::kIpv4HeaderBytesMin);
  wire::write_ipv4(header, wire::ChecksumField::kComputed,
                   std::span<uint8_t, wire::kIpv4HeaderBytesMin>(front, wire::kIpv4HeaderBytesMin));
  link::push_ethernet(out, frame, wire::kEtherTypeIpv4);
}

void push_ipv6(const wire::AddressPair& pair, const link::FrameAddresses& frame,
               io::PacketBuf& out) {
  link::push_ipv6(out, frame,
                  {.source = pair.source,
                   .destination = pair.destination,
                   .payload_bytes = static_cast<uint16_t>(out.length),
                   .next_header = wire::kIpProtocolIcmpv6});
}

}  // namespace

std::optional<Drop> EchoResponder::write_reply(const EchoInput& request,
                                               const link::FrameAddresses& addresses,
                                               uint16_t ip_id, Nanos now, io::PacketBuf& out) {
  LYRE_CHECK(out.length == 0 && out.headroom >= kFrontBytesMax);  // newly allocated by the worker
  if (request.icmp.body.size() > out.tailroom) return Drop::kTxNoBuffer;
  if (!replies_.take(now)) return Drop::kIcmpRateLimited;
  put_body(request.icmp.body, out);
  const wire::AddressPair pair{request.destination, request.source};
  if (pair.source.is_v4()) {
    wire::write_echo_reply(request.icmp, out.bytes());
    push_ipv4(pair, addresses, ip_id, out);
  } else {
    wire::write_echo_reply6(request.icmp, pair, out.bytes());
    push_ipv6(pair, addresses, out);
  }
  return std::nullopt;
}

std::optional<Drop> EchoResponder::write_problem(const Refused& refused,
                                                 const link::FrameAddresses& addresses, Nanos now,
                                                 io::PacketBuf& out) {
  LYRE_CHECK(out.length == 0 && out.headroom >= kFrontBytesMax);  // newly allocated by the worker
  // RFC 4443 2.4 (c): as much as fits into the minimum IPv6 MTU.
  constexpr size_t kQuoteBytesMax =
      wire::kIpv6MtuBytesMin - wire::kIpv6HeaderBytes - wire::kIcmpHeaderBytes;
  const auto quote = refused.packet.first(std::min(refused.packet.size(), kQuoteBytesMax));
  if (quote.size() > out.tailroom) return Drop::kTxNoBuffer;
  if (!errors_.take(now)) return Drop::kIcmpRateLimited;
  put_body(quote, out);
  const wire::AddressPair pair{refused.destination, refused.source};
  wire::write_parameter_problem(refused.problem, pair, out.bytes());
  push_ipv6(pair, addresses, out);
  return std::nullopt;
}

}  // namespace lyre::ip
