#include "stack/ip/echo_responder.h"

#include <algorithm>
#include <cstring>

#include "stack/base/check.h"
#include "stack/wire/ipv4.h"

namespace lyre::ip {
namespace {

constexpr Nanos kTokenEvery = seconds(1) / kEchoRepliesPerSecond;
constexpr uint16_t kFrontBytes =
    wire::kEthernetHeaderBytes + wire::kIpv4HeaderBytesMin + wire::kIcmpHeaderBytes;

}  // namespace

std::optional<Drop> EchoResponder::write_reply(const EchoInput& request,
                                               const link::FrameAddresses& addresses,
                                               uint16_t ip_id, Nanos now, io::PacketBuf& out) {
  LYRE_CHECK(out.length == 0 && out.headroom >= kFrontBytes);
  const std::span<const uint8_t> body = request.icmp.body;
  if (body.size() > out.tailroom) return Drop::kTxNoBuffer;
  if (!take_token(now)) return Drop::kIcmpRateLimited;

  if (!body.empty()) std::memcpy(out.data, body.data(), body.size());
  out.length = static_cast<uint32_t>(body.size());
  out.tailroom = static_cast<uint16_t>(out.tailroom - body.size());
  out.push_front(wire::kIcmpHeaderBytes);
  wire::write_echo_reply(request.icmp, out.bytes());

  wire::Ipv4Header header;
  header.source = request.destination;
  header.destination = request.source;
  header.total_bytes = static_cast<uint16_t>(out.length + wire::kIpv4HeaderBytesMin);
  header.id = ip_id;
  header.protocol = wire::kIpProtocolIcmp;
  uint8_t* front = out.push_front(wire::kIpv4HeaderBytesMin);
  wire::write_ipv4(header, wire::ChecksumField::kComputed,
                   std::span<uint8_t, wire::kIpv4HeaderBytesMin>(front, wire::kIpv4HeaderBytesMin));
  link::push_ethernet(out, addresses, wire::kEtherTypeIpv4);
  return std::nullopt;
}

bool EchoResponder::take_token(Nanos now) {
  const int64_t earned = (now - refilled_at_).value / kTokenEvery.value;
  if (earned > 0) {
    tokens_ = static_cast<uint32_t>(std::min<int64_t>(kEchoReplyBurst, tokens_ + earned));
    refilled_at_ += kTokenEvery * earned;
  }
  if (tokens_ == 0) return false;
  --tokens_;
  return true;
}

}  // namespace lyre::ip
