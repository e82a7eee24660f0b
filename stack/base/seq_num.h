#pragma once

#include <cstdint>

namespace lyre {

/// A TCP sequence number: RFC 9293 3.4, arithmetic modulo 2^32. There is no `<`: order is only
/// defined between numbers less than 2^31 apart. before() states that condition.
class SeqNum {
 public:
  constexpr SeqNum() = default;
  constexpr explicit SeqNum(uint32_t raw) : raw_(raw) {}

  constexpr uint32_t raw() const { return raw_; }
  constexpr bool before(SeqNum other) const { return static_cast<int32_t>(raw_ - other.raw_) < 0; }
  constexpr bool after(SeqNum other) const { return other.before(*this); }
  constexpr bool at_or_before(SeqNum other) const { return !other.before(*this); }
  constexpr bool at_or_after(SeqNum other) const { return !before(other); }
  /// True when this number lies in [low, low + count).
  constexpr bool in_window(SeqNum low, uint32_t count) const { return raw_ - low.raw_ < count; }

  /// Distance from `earlier` up to this number, in sequence space.
  constexpr uint32_t since(SeqNum earlier) const { return raw_ - earlier.raw_; }
  constexpr SeqNum operator+(uint32_t count) const { return SeqNum(raw_ + count); }
  constexpr SeqNum operator-(uint32_t count) const { return SeqNum(raw_ - count); }
  constexpr SeqNum& operator+=(uint32_t count) {
    raw_ += count;
    return *this;
  }
  friend constexpr bool operator==(SeqNum, SeqNum) = default;
  bool operator<(SeqNum) const = delete;

 private:
  uint32_t raw_ = 0;
};

constexpr SeqNum latest(SeqNum a, SeqNum b) { return a.before(b) ? b : a; }
constexpr SeqNum earliest(SeqNum a, SeqNum b) { return a.before(b) ? a : b; }

}  // namespace lyre
