#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

/// The protocol between `lyre perf client` and `lyre perf server`. It does not depend on the
/// transport of either side. Little endian.
///
/// The client sends a Plan, the server answers with a Welcome. Then, in a bulk test, each side
/// sends data frames (none in a direction that is not tested), an end frame, and, once the peer's
/// end frame has come, a trailer frame with what it received. In a ping-pong the client sends a
/// message, the server sends it back, `count` times. Then both finish.
namespace lyre::perf {

inline constexpr std::array<uint8_t, 8> kMagic = {'L', 'Y', 'R', 'E', 'P', 'E', 'R', 'F'};
inline constexpr uint16_t kVersion = 1;

enum class Kind : uint8_t { kBulk = 1, kPingPong = 2 };
enum class Direction : uint8_t { kToServer = 1, kToClient = 2, kBoth = 3 };

inline constexpr uint64_t kMessageBytesMax = 1u << 20;

struct Plan {
  Kind kind = Kind::kBulk;
  Direction direction = Direction::kToServer;
  bool has_hash = false;      ///< SHA-256 of all payload, in both directions
  bool is_untouched = false;  ///< neither side writes or reads the payload
  uint64_t bytes = 0;         ///< bulk: in each direction; 0: until duration_ms is over
  uint64_t duration_ms = 0;
  uint32_t block_bytes = 0;    ///< bulk: of one write
  uint32_t message_bytes = 0;  ///< ping-pong
  uint64_t count = 0;          ///< ping-pong
  uint64_t seed = 0;
  int64_t interval_ns = 0;  ///< ping-pong: time between round trips; not sent to the server

  bool sends_to(Direction side) const {
    return kind == Kind::kBulk &&
           (static_cast<uint8_t>(direction) & static_cast<uint8_t>(side)) != 0;
  }
};

inline constexpr size_t kPlanBytes = 64;
std::array<uint8_t, kPlanBytes> encode(const Plan& plan);
/// False when `bytes`, of any number, cannot be the beginning of a plan.
bool is_start_of_plan(std::span<const uint8_t> bytes);
/// Returns the plan. Fails: returns nullopt and one line in `error`.
std::optional<Plan> decode_plan(std::span<const uint8_t> bytes, std::string& error);

inline constexpr size_t kWelcomeBytes = 16;
std::array<uint8_t, kWelcomeBytes> encode_welcome();
/// Returns an empty string, or why this is not the welcome of a server of the same version.
std::string check_welcome(std::span<const uint8_t> bytes);

enum class FrameType : uint8_t { kData = 1, kEnd = 2, kTrailer = 3 };

struct FrameHeader {
  FrameType type = FrameType::kData;
  uint64_t bytes = 0;  ///< of the body that follows
};
/// A multiple of 8, so that payload in a block is aligned.
inline constexpr size_t kFrameHeaderBytes = 16;
void encode(const FrameHeader& header, std::span<uint8_t> out);
std::optional<FrameHeader> decode_frame_header(std::span<const uint8_t> bytes);

using Hash = std::array<uint8_t, 32>;
std::string to_hex(const Hash& hash);

/// Body of an end frame (what was sent) and of a trailer (what was received).
struct Totals {
  uint64_t bytes = 0;
  int64_t duration_ns = 0;
  bool is_intact = true;  ///< the pattern was right in every byte
  Hash hash{};            ///< zeros without has_hash
};
inline constexpr size_t kTotalsBytes = 56;
void encode(const Totals& totals, std::span<uint8_t> out);
Totals decode_totals(std::span<const uint8_t> bytes);

}  // namespace lyre::perf
