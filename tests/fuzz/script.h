#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "stack/base/check.h"
#include "stack/tcp/engine.h"

namespace lyre::fuzz {

/// The charge of a received segment, and the limits of one step of a script.
inline constexpr uint32_t kChargeBytes = 2048;
inline constexpr int kSegmentsAtOnceMax = 64;
inline constexpr int kTimersAtOnceMax = 32;

/// The bytes of a fuzzer, read as a script. After the end every value is 0.
class Script {
 public:
  explicit Script(std::span<const uint8_t> bytes) : rest_(bytes) {}
  bool is_over() const { return rest_.empty(); }
  uint8_t u8() {
    if (rest_.empty()) return 0;
    const uint8_t value = rest_[0];
    rest_ = rest_.subspan(1);
    return value;
  }
  uint16_t u16() { return static_cast<uint16_t>(u8() | (u8() << 8)); }
  int16_t i16() { return static_cast<int16_t>(u16()); }
  uint32_t u32() { return u16() | (uint32_t{u16()} << 16); }
  /// From 50 us to some 25 s; short times are more frequent.
  Nanos span() {
    const uint8_t byte = u8();
    return micros(50) * ((1 + (byte & 15)) << (byte >> 4));
  }

 private:
  std::span<const uint8_t> rest_;
};

/// Tracks the payloads that an engine was given: each is refused, or kept until it is read once, in
/// order, or returned. `Place` identifies the first byte of a payload.
template <typename Place>
class Ledger {
 public:
  uint32_t offer(Place first, uint32_t bytes) {
    places_[next_slot_] = {first, bytes};
    return next_slot_++;
  }
  void refuse(uint32_t slot) { LYRE_CHECK(places_.erase(slot) == 1); }
  /// The place at which the slice begins. The payload now belongs to the reader.
  Place read(const PayloadSlice& slice) {
    const auto found = places_.find(slice.handle.slot);
    LYRE_CHECK(found != places_.end());
    const Payload payload = found->second;
    LYRE_CHECK(slice.length > 0 && slice.offset + slice.length <= payload.bytes);
    places_.erase(found);
    ++lent_count;
    return payload.first + slice.offset;
  }
  size_t kept_count() const { return places_.size(); }

  uint32_t lent_count = 0;

 private:
  struct Payload {
    Place first;
    uint32_t bytes;
  };
  std::map<uint32_t, Payload> places_;
  uint32_t next_slot_ = 0;
};

/// Options and sizes of one side, from two bytes.
tcp::ConnectionConfig read_config(Script& script);

/// One connection against a peer that sends what the bytes say, when they say it.
void run_segments(std::span<const uint8_t> bytes);
/// Two engines on a wire that loses, duplicates, reorders and rewrites packets as the bytes say.
void run_two_stacks(std::span<const uint8_t> bytes);

}  // namespace lyre::fuzz
