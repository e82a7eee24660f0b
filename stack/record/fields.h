#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "stack/base/ip_address.h"
#include "stack/base/nanos.h"
#include "stack/base/seq_num.h"

/// Fields of a record as bytes: little endian, each with the width of its type, without padding.
/// One list of the fields serves both sides:
///
///   template <typename Fields, typename T>   // T: const Point for the writer, Point for the
///   reader void list(Fields& fields, T& point) {
///     fields.number(point.x, 0u, 1000u);
///     if (fields.has_since(2)) fields.flag(point.is_new);
///   }
namespace lyre::record {

/// Appends fields. Owner: *borrows* the bytes. Thread: one.
class FieldWriter {
 public:
  explicit FieldWriter(std::vector<uint8_t>& out) : out_(out) {}

  /// Limits are the reader's business.
  template <std::integral T>
  void number(const T& value, T = 0, T = 0) {
    const auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (size_t i = 0; i < sizeof(T); ++i) out_.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  }
  void flag(const bool& value) { out_.push_back(value ? 1 : 0); }
  template <typename E>
  void one_of(const E& value, E) {
    number(static_cast<uint8_t>(value));
  }
  void real(const double& value, double, double) { number(std::bit_cast<uint64_t>(value)); }
  void seq(const SeqNum& value) { number(value.raw()); }
  void time(const Nanos& value) { number(value.value); }
  void address(const IpAddress& value) { bytes(value.bytes); }
  void bytes(std::span<const uint8_t> value) {
    out_.insert(out_.end(), value.begin(), value.end());
  }
  /// Writers know the newest version only.
  bool has_since(uint16_t) const { return true; }

 private:
  std::vector<uint8_t>& out_;
};

/// Takes fields from unvalidated bytes. A value that is not allowed, and a record that is too
/// short, are remembered: fields that are read after that must not be used.
/// Owner: *borrows* the bytes. Thread: one.
class FieldReader {
 public:
  FieldReader(std::span<const uint8_t> in, uint16_t version) : in_(in), version_(version) {}

  template <std::integral T>
  void number(T& value, T least = std::numeric_limits<T>::min(),
              T most = std::numeric_limits<T>::max()) {
    std::make_unsigned_t<T> bits = 0;
    const std::span<const uint8_t> taken = take(sizeof(T));
    for (size_t i = 0; i < taken.size(); ++i) {
      bits = static_cast<std::make_unsigned_t<T>>(
          bits | (static_cast<std::make_unsigned_t<T>>(taken[i]) << (8 * i)));
    }
    value = static_cast<T>(bits);
    require(value >= least && value <= most);
  }
  void flag(bool& value) {
    uint8_t byte = 0;
    number<uint8_t>(byte, 0, 1);
    value = byte == 1;
  }
  /// An enum of one byte whose values are 0 to `last`.
  template <typename E>
  void one_of(E& value, E last) {
    uint8_t byte = 0;
    number<uint8_t>(byte, 0, static_cast<uint8_t>(last));
    if (is_sound_) value = static_cast<E>(byte);
  }
  void real(double& value, double least, double most) {
    uint64_t bits = 0;
    number(bits);
    value = std::bit_cast<double>(bits);
    require(value >= least && value <= most);  // false for what is not a number
  }
  void seq(SeqNum& value) {
    uint32_t raw = 0;
    number(raw);
    value = SeqNum(raw);
  }
  /// A point on the clock that sums do not overflow, or kNever.
  void time(Nanos& value) {
    constexpr int64_t kFarthest = int64_t{1} << 61;
    number(value.value);
    require(value == kNever || (value.value > -kFarthest && value.value < kFarthest));
  }
  void address(IpAddress& value) { bytes(value.bytes); }
  void bytes(std::span<uint8_t> value) {
    const std::span<const uint8_t> taken = take(value.size());
    for (size_t i = 0; i < taken.size(); ++i) value[i] = taken[i];
  }
  /// What is left of the record.
  std::span<const uint8_t> rest() { return take(in_.size()); }
  /// Whether the record's version has the fields that came with `version`.
  bool has_since(uint16_t version) const { return version_ >= version; }

  /// A condition that several fields fulfil together.
  void require(bool is_true) { is_sound_ = is_sound_ && is_true; }
  bool is_sound() const { return is_sound_; }
  /// Every field was allowed, and nothing is left over.
  bool is_complete() const { return is_sound_ && in_.empty(); }

 private:
  std::span<const uint8_t> take(size_t count) {
    require(count <= in_.size());
    if (!is_sound_) return {};
    const std::span<const uint8_t> taken = in_.first(count);
    in_ = in_.subspan(count);
    return taken;
  }

  std::span<const uint8_t> in_;
  uint16_t version_;
  bool is_sound_ = true;
};

}  // namespace lyre::record
