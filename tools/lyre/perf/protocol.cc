#include "tools/lyre/perf/protocol.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tools/lyre/perf/stream.h"

namespace lyre::perf {
namespace {

constexpr std::array<uint8_t, 8> kWelcomeMagic = {'L', 'Y', 'R', 'E', 'W', 'E', 'L', 'C'};
constexpr uint64_t kDurationMsMax = uint64_t{24} * 3600 * 1000;
constexpr uint8_t kHashFlag = 1;
constexpr uint8_t kUntouchedFlag = 2;

/// Writes little-endian numbers one after the other.
class Writer {
 public:
  explicit Writer(std::span<uint8_t> out) : out_(out) {}
  template <typename Number>
  void put(Number value) {
    for (size_t i = 0; i < sizeof value; ++i) {
      out_[at_++] = static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i));
    }
  }
  void put_bytes(std::span<const uint8_t> bytes) {
    std::copy(bytes.begin(), bytes.end(), out_.begin() + static_cast<ptrdiff_t>(at_));
    at_ += bytes.size();
  }

 private:
  std::span<uint8_t> out_;
  size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  template <typename Number>
  Number take() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(Number); ++i) value |= uint64_t{bytes_[at_++]} << (8 * i);
    return static_cast<Number>(value);
  }
  void take_bytes(std::span<uint8_t> out) {
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(at_), out.size(), out.begin());
    at_ += out.size();
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

std::string check_plan(const Plan& plan, uint8_t kind, uint8_t direction) {
  if (kind != 1 && kind != 2) return "an unknown kind of test";
  if (direction < 1 || direction > 3) return "an unknown direction";
  if (plan.kind == Kind::kPingPong) {
    const bool is_good = plan.message_bytes >= 1 && plan.message_bytes <= kMessageBytesMax;
    return is_good ? "" : "a message size that is not 1 B to 1 MiB";
  }
  if (plan.block_bytes < 1024 || plan.block_bytes > kBlockBytesMax) {
    return "a block size that is not 1 KiB to 4 MiB";
  }
  if (plan.bytes == 0 && plan.duration_ms == 0) return "no amount of bytes or time";
  return plan.duration_ms > kDurationMsMax ? "a test of more than a day" : "";
}

}  // namespace

std::array<uint8_t, kPlanBytes> encode(const Plan& plan) {
  std::array<uint8_t, kPlanBytes> out{};
  Writer writer(out);
  writer.put_bytes(kMagic);
  writer.put(kVersion);
  writer.put(static_cast<uint8_t>(plan.kind));
  writer.put(static_cast<uint8_t>(plan.direction));
  writer.put(static_cast<uint8_t>((plan.has_hash ? kHashFlag : 0) |
                                  (plan.is_untouched ? kUntouchedFlag : 0)));
  writer.put(uint8_t{0});
  writer.put(uint16_t{0});
  writer.put(plan.bytes);
  writer.put(plan.duration_ms);
  writer.put(plan.block_bytes);
  writer.put(plan.message_bytes);
  writer.put(plan.count);
  writer.put(plan.seed);
  return out;
}

bool is_start_of_plan(std::span<const uint8_t> bytes) {
  const size_t known = std::min(bytes.size(), kMagic.size());
  return std::equal(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(known), kMagic.begin());
}

std::optional<Plan> decode_plan(std::span<const uint8_t> bytes, std::string& error) {
  if (bytes.size() < kPlanBytes || !is_start_of_plan(bytes)) {
    error = "it does not speak the protocol of lyre perf";
    return std::nullopt;
  }
  Reader reader(bytes.subspan(kMagic.size()));
  const auto version = reader.take<uint16_t>();
  if (version != kVersion) {
    error = "it speaks version " + std::to_string(version) + " of lyre perf, we speak " +
            std::to_string(kVersion);
    return std::nullopt;
  }
  const auto kind = reader.take<uint8_t>();
  const auto direction = reader.take<uint8_t>();
  const auto flags = reader.take<uint8_t>();
  reader.take<uint8_t>();
  reader.take<uint16_t>();
  Plan plan;
  plan.kind = static_cast<Kind>(kind);
  plan.direction = static_cast<Direction>(direction);
  plan.has_hash = (flags & kHashFlag) != 0;
  plan.is_untouched = (flags & kUntouchedFlag) != 0;
  plan.bytes = reader.take<uint64_t>();
  plan.duration_ms = reader.take<uint64_t>();
  plan.block_bytes = reader.take<uint32_t>();
  plan.message_bytes = reader.take<uint32_t>();
  plan.count = reader.take<uint64_t>();
  plan.seed = reader.take<uint64_t>();
  const std::string wrong = check_plan(plan, kind, direction);
  if (wrong.empty()) return plan;
  error = "it asks for " + wrong;
  return std::nullopt;
}

std::array<uint8_t, kWelcomeBytes> encode_welcome() {
  std::array<uint8_t, kWelcomeBytes> out{};
  Writer writer(out);
  writer.put_bytes(kWelcomeMagic);
  writer.put(kVersion);
  return out;
}

std::string check_welcome(std::span<const uint8_t> bytes) {
  if (!std::equal(kWelcomeMagic.begin(), kWelcomeMagic.end(), bytes.begin())) {
    return "what listens there is not a lyre perf server";
  }
  const auto version = Reader(bytes.subspan(kWelcomeMagic.size())).take<uint16_t>();
  if (version == kVersion) return "";
  return "the server speaks version " + std::to_string(version) + " of lyre perf, we speak " +
         std::to_string(kVersion);
}

void encode(const FrameHeader& header, std::span<uint8_t> out) {
  Writer writer(out);
  writer.put(uint64_t{static_cast<uint8_t>(header.type)});
  writer.put(header.bytes);
}

std::optional<FrameHeader> decode_frame_header(std::span<const uint8_t> bytes) {
  Reader reader(bytes);
  const auto type = reader.take<uint64_t>();
  const auto size = reader.take<uint64_t>();
  const bool is_data = type == 1 && size >= 1 && size <= kBlockBytesMax;
  const bool is_totals = (type == 2 || type == 3) && size == kTotalsBytes;
  if (!is_data && !is_totals) return std::nullopt;
  return FrameHeader{static_cast<FrameType>(type), size};
}

std::string to_hex(const Hash& hash) {
  std::string out;
  char digits[3];
  for (const uint8_t byte : hash) {
    std::snprintf(digits, sizeof digits, "%02x", byte);
    out += digits;
  }
  return out;
}

void encode(const Totals& totals, std::span<uint8_t> out) {
  Writer writer(out);
  writer.put(totals.bytes);
  writer.put(totals.duration_ns);
  writer.put(uint64_t{totals.is_intact ? 1u : 0u});
  writer.put_bytes(totals.hash);
}

Totals decode_totals(std::span<const uint8_t> bytes) {
  Reader reader(bytes);
  Totals totals;
  totals.bytes = reader.take<uint64_t>();
  totals.duration_ns = reader.take<int64_t>();
  totals.is_intact = reader.take<uint64_t>() == 1;
  reader.take_bytes(totals.hash);
  return totals;
}

}  // namespace lyre::perf
