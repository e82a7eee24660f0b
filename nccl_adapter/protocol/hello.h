#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nccl_adapter/protocol/handle.h"

/// The first bytes of a stream: the connecting side says hello, the listening side answers.
namespace lyre::nccl_adapter {

/// Magic, version range and length: the same in every version, so that any version can refuse.
inline constexpr size_t kHelloPrefixBytes = 16;
inline constexpr size_t kHelloBytes = 128;
inline constexpr size_t kHelloBytesMax = 512;  ///< of versions to come
inline constexpr size_t kAnswerBytes = 368;
inline constexpr size_t kAnswerTextBytes = 128;

/// As stream_index: no stream, but a receiver that asks its sender to dial the comm's streams
/// again.
inline constexpr uint16_t kRedialRequest = 0xffff;

struct Hello {
  uint16_t version_min = kProtocolVersionMin;
  uint16_t version_max = kProtocolVersionMax;
  uint16_t stream_index = 0;
  uint16_t stream_count = 1;
  uint32_t incarnation = 1;  ///< of that stream: a later one takes the place of an earlier
  uint16_t listen_port = 0;  ///< of the connecting process, for kRedialRequest; 0: none
  uint32_t pid = 0;
  Nonce nonce{};    ///< from the handle
  Nonce comm_id{};  ///< the same on all streams of one comm, chosen by the connecting side
  std::string host;
};

enum class AnswerCode : uint16_t {
  kWelcome = 0,
  kVersion = 1,    ///< no common protocol version
  kUnknown = 2,    ///< no listen comm has that nonce
  kBusy = 3,       ///< too many wait there already
  kBadStream = 4,  ///< index or count are invalid, or that stream exists already
  kDeparted = 5,   ///< the comm was closed over there, in order; see `placed`
  kRedialing = 6,  ///< to a redial request: the streams are dialled
};

struct Answer {
  uint16_t version = kProtocolVersionMax;
  AnswerCode code = AnswerCode::kWelcome;
  uint32_t pid = 0;
  std::string host;
  std::string text;            ///< why not, for people
  uint64_t placed = 0;         ///< kDeparted: messages before this one were placed
  std::vector<Address> rails;  ///< kWelcome: where else this host can be reached, kRailsMax at most
};

void encode(const Hello& hello, std::span<uint8_t, kHelloBytes> out);
void encode(const Answer& answer, std::span<uint8_t, kAnswerBytes> out);

enum class HelloState {
  kMore,      ///< fine so far
  kComplete,  ///< *out is valid
  kStranger,  ///< does not speak this protocol
  kVersion,   ///< speaks it, in no version of ours; *out holds its range
};

/// Reads a hello from the `in` bytes received so far. Never needs bytes that a peer of any version
/// does not send.
HelloState read_hello(std::span<const uint8_t> in, Hello* out);

/// The highest version that both sides know. REQUIRES: read_hello() took it as complete.
uint16_t common_version(const Hello& hello);

/// Whether the `in` bytes received so far may be the front of an answer.
bool begins_answer(std::span<const uint8_t> in);

/// Fails: false when this is no answer.
bool decode(std::span<const uint8_t, kAnswerBytes> in, Answer* out);

}  // namespace lyre::nccl_adapter
