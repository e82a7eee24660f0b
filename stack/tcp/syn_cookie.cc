#include "stack/tcp/syn_cookie.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "stack/tcp/ecn.h"
#include "stack/tcp/isn.h"
#include "stack/tcp/path_mtu.h"
#include "stack/tcp/receive_window.h"

namespace lyre::tcp {

namespace {

using wire::TcpFlags;

// The sequence number from the top: period (5 bits), MSS (3 bits), MAC (24 bits).
constexpr Nanos kPeriod = seconds(64);
constexpr uint32_t kPeriodShift = 27;
constexpr uint32_t kMssShift = 24;
constexpr uint32_t kMacMask = 0xffffff;
constexpr uint32_t kPeriodMask = 0x1f;

/// The peer's MSS, rounded down to one of these; as in Linux, no less than the first. The large
/// ones are those of IPv6 on links of 4096, 8500 and 8896 bytes: hosts with 9000 offer little more.
constexpr std::array<uint16_t, 8> kMssSteps = {536, 1220, 1380, 1440, 1460, 4036, 8440, 8836};

// The low bits of the timestamp.
constexpr uint32_t kScaleMask = 0xf;
constexpr uint32_t kScaleNone = 0xf;
constexpr uint32_t kSackBit = 0x10;
constexpr uint32_t kEcnBit = 0x20;
constexpr uint32_t kOptionMask = 0x3f;

uint32_t period_at(Nanos now) { return static_cast<uint32_t>(now.value / kPeriod.value); }

uint32_t mac_of(const FourTuple& tuple, SipKey key, SeqNum irs, uint32_t period, uint32_t mss) {
  // The ISN's and the timestamp's hashes are 0 and 1. Another table of MSS steps takes another
  // number: a successor has the key, and must not read a cookie by another table than its maker's.
  constexpr uint8_t kPurpose = 3;
  std::array<uint8_t, 47> bytes{};
  std::memcpy(bytes.data(), tuple.local.address.bytes.data(), 16);
  std::memcpy(bytes.data() + 16, tuple.remote.address.bytes.data(), 16);
  std::memcpy(bytes.data() + 32, &tuple.local.port, 2);
  std::memcpy(bytes.data() + 34, &tuple.remote.port, 2);
  const std::array<uint32_t, 2> numbers = {irs.raw(), period};
  std::memcpy(bytes.data() + 36, numbers.data(), sizeof numbers);
  bytes[44] = static_cast<uint8_t>(mss);
  bytes[45] = kPurpose;
  return static_cast<uint32_t>(SipHash(key)(bytes)) & kMacMask;
}

uint32_t mss_step(uint16_t mss) {
  uint32_t step = 0;
  while (step + 1 < kMssSteps.size() && kMssSteps[step + 1] <= mss) ++step;
  return step;
}

uint32_t option_bits(const ConnectionConfig& config, const SegmentIn& syn) {
  const wire::TcpOptions& offer = syn.options;
  uint32_t bits = kScaleNone;
  if (config.window_scaling && offer.window_scale)
    bits = std::min(*offer.window_scale, kWindowScaleMax);
  if (config.sack && offer.sack_permitted) bits |= kSackBit;
  if (agrees_to_ecn(config, syn)) bits |= kEcnBit;
  return bits;
}

/// The timestamp clock with its low bits replaced, never ahead of the clock.
uint32_t timestamp_with(uint32_t clock, uint32_t bits) {
  const uint32_t value = (clock & ~kOptionMask) | bits;
  return SeqNum(value).after(SeqNum(clock)) ? value - (kOptionMask + 1) : value;
}

}  // namespace

SegmentOut make_cookie_answer(const FourTuple& tuple, const ConnectionConfig& config, SipKey key,
                              const SegmentIn& syn, Nanos now) {
  const uint32_t period = period_at(now);
  const uint32_t mss = mss_step(syn.options.mss.value_or(mss_everywhere(tuple.remote.address)));
  SegmentOut out;
  out.seq = SeqNum((period & kPeriodMask) << kPeriodShift | mss << kMssShift |
                   mac_of(tuple, key, syn.seq, period, mss));
  out.ack = syn.seq + 1;
  out.flags.set(TcpFlags::kSyn);
  out.flags.set(TcpFlags::kAck);
  out.window = static_cast<uint16_t>(std::min<uint32_t>(config.receive_buffer_bytes, UINT16_MAX));
  out.mss_bytes = config.mss_bytes;
  out.options.mss = config.mss_bytes;
  // Without timestamps there is no room for the other options in the cookie, so none is accepted.
  if (!config.timestamps || !syn.options.has_timestamps) return out;
  const uint32_t bits = option_bits(config, syn);
  const uint32_t clock =
      timestamp_offset(tuple, key) + static_cast<uint32_t>(now.value / 1'000'000);
  out.options.has_timestamps = true;
  out.options.ts_value = timestamp_with(clock, bits);
  out.options.ts_echo = syn.options.ts_value;
  out.options.sack_permitted = (bits & kSackBit) != 0;
  if ((bits & kScaleMask) != kScaleNone) {
    out.options.window_scale = window_scale_for(config.receive_buffer_bytes);
  }
  if ((bits & kEcnBit) != 0) out.flags.set(TcpFlags::kEce);
  return out;
}

std::optional<SegmentIn> syn_behind_cookie(const FourTuple& tuple, SipKey key, const SegmentIn& ack,
                                           Nanos now) {
  const uint32_t cookie = (ack.ack - 1).raw();
  const uint32_t age = (period_at(now) - (cookie >> kPeriodShift)) & kPeriodMask;
  if (age > 1) return std::nullopt;
  const uint32_t mss = cookie >> kMssShift & (kMssSteps.size() - 1);
  const SeqNum irs = ack.seq - 1;
  if ((cookie & kMacMask) != mac_of(tuple, key, irs, period_at(now) - age, mss)) {
    return std::nullopt;
  }
  SegmentIn syn;
  syn.seq = irs;
  syn.flags.set(TcpFlags::kSyn);
  syn.window = ack.window;
  syn.options.mss = kMssSteps[mss];
  if (!ack.options.has_timestamps) return syn;
  const uint32_t bits = ack.options.ts_echo & kOptionMask;
  syn.options.has_timestamps = true;
  syn.options.ts_value = ack.options.ts_value;
  syn.options.sack_permitted = (bits & kSackBit) != 0;
  if ((bits & kScaleMask) != kScaleNone) {
    syn.options.window_scale = static_cast<uint8_t>(bits & kScaleMask);
  }
  if ((bits & kEcnBit) != 0) syn.flags.bits |= TcpFlags::kEce | TcpFlags::kCwr;
  return syn;
}

}  // namespace lyre::tcp
