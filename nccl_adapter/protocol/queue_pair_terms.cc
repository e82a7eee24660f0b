#include "nccl_adapter/protocol/queue_pair_terms.h"

#include <algorithm>
#include <bit>

#include "nccl_adapter/protocol/bytes.h"

namespace lyre::nccl_adapter {
namespace {

constexpr size_t kNumberAt = 0;
constexpr size_t kFirstPsnAt = 4;
constexpr size_t kGidAt = 8;
constexpr size_t kMtuAt = 24;
constexpr size_t kSlotsAt = 28;
constexpr size_t kSlotBytesAt = 32;
constexpr size_t kModesAt = 36;
static_assert(kModesAt + sizeof(uint32_t) <= kQueuePairTermsBytes);

constexpr uint32_t k24Bits = (1u << 24) - 1;
constexpr uint32_t kMtuMin = 256;
constexpr uint32_t kMtuMax = 4096;

bool is_in(uint32_t value, uint32_t least, uint32_t most) {
  return value >= least && value <= most;
}

bool is_sane(const QueuePairTerms& terms) {
  const bool has_gid = terms.gid != Address{} && terms.gid[0] != 0xff;  // IPv6 multicast
  return is_in(terms.number, 1, k24Bits) && terms.first_psn <= k24Bits && has_gid &&
         is_in(terms.mtu_bytes, kMtuMin, kMtuMax) && std::has_single_bit(terms.mtu_bytes) &&
         is_in(terms.slots, kSlotsMin, kSlotsMax) &&
         is_in(terms.slot_bytes, kSlotBytesMin, kSlotBytesMax) && (terms.modes & kModeSend) != 0;
}

}  // namespace

void encode(const QueuePairTerms& terms, std::span<uint8_t, kQueuePairTermsBytes> out) {
  std::fill(out.begin(), out.end(), uint8_t{0});
  put_le<uint32_t>(out, kNumberAt, terms.number);
  put_le<uint32_t>(out, kFirstPsnAt, terms.first_psn);
  std::copy(terms.gid.begin(), terms.gid.end(), out.begin() + kGidAt);
  put_le<uint32_t>(out, kMtuAt, terms.mtu_bytes);
  put_le<uint32_t>(out, kSlotsAt, terms.slots);
  put_le<uint32_t>(out, kSlotBytesAt, terms.slot_bytes);
  put_le<uint32_t>(out, kModesAt, terms.modes);
}

bool decode(std::span<const uint8_t> in, QueuePairTerms* out) {
  if (in.size() < kQueuePairTermsBytes) return false;
  out->number = get_le<uint32_t>(in, kNumberAt);
  out->first_psn = get_le<uint32_t>(in, kFirstPsnAt);
  std::copy_n(in.begin() + kGidAt, out->gid.size(), out->gid.begin());
  out->mtu_bytes = get_le<uint32_t>(in, kMtuAt);
  out->slots = get_le<uint32_t>(in, kSlotsAt);
  out->slot_bytes = get_le<uint32_t>(in, kSlotBytesAt);
  out->modes = get_le<uint32_t>(in, kModesAt);
  return is_sane(*out);
}

}  // namespace lyre::nccl_adapter
