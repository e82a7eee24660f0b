#include "stack/tcp/isn.h"

#include <array>
#include <cstring>

namespace lyre::tcp {

namespace {

constexpr int64_t kIsnTickNs = 4'000;

uint64_t tuple_hash(const FourTuple& tuple, SipKey key, uint8_t purpose) {
  std::array<uint8_t, 37> bytes{};  // field by field: padding must not enter the hash
  std::memcpy(bytes.data(), tuple.local.address.bytes.data(), 16);
  std::memcpy(bytes.data() + 16, tuple.remote.address.bytes.data(), 16);
  std::memcpy(bytes.data() + 32, &tuple.local.port, 2);
  std::memcpy(bytes.data() + 34, &tuple.remote.port, 2);
  bytes[36] = purpose;
  return SipHash(key)(bytes);
}

}  // namespace

SeqNum initial_seq(const FourTuple& tuple, SipKey key, Nanos now) {
  const auto clock = static_cast<uint32_t>(now.value / kIsnTickNs);
  return SeqNum(static_cast<uint32_t>(tuple_hash(tuple, key, 0)) + clock);
}

uint32_t timestamp_offset(const FourTuple& tuple, SipKey key) {
  return static_cast<uint32_t>(tuple_hash(tuple, key, 1));
}

}  // namespace lyre::tcp
