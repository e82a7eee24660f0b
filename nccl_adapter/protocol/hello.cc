#include "nccl_adapter/protocol/hello.h"

#include <algorithm>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/protocol/bytes.h"

namespace lyre::nccl_adapter {
namespace {

constexpr std::array<uint8_t, 8> kHelloMagic = {'L', 'Y', 'R', 'E', 'N', 'C', 'C', 'L'};
constexpr std::array<uint8_t, 8> kAnswerMagic = {'L', 'Y', 'R', 'E', 'A', 'N', 'S', 'W'};

constexpr size_t kHelloVersionMinAt = 8;
constexpr size_t kHelloVersionMaxAt = 10;
constexpr size_t kLengthAt = 12;
constexpr size_t kStreamIndexAt = 16;
constexpr size_t kStreamCountAt = 18;
constexpr size_t kHelloPidAt = 20;
constexpr size_t kHelloNonceAt = 24;
constexpr size_t kCommIdAt = 40;
constexpr size_t kHelloHostAt = 56;
constexpr size_t kIncarnationAt = kHelloHostAt + kHostNameBytes;
constexpr size_t kListenPortAt = kIncarnationAt + sizeof(uint32_t);
static_assert(kListenPortAt + sizeof(uint16_t) <= kHelloBytes);

constexpr size_t kAnswerVersionAt = 8;
constexpr size_t kAnswerCodeAt = 10;
constexpr size_t kAnswerPidAt = 12;
constexpr size_t kAnswerHostAt = 16;
constexpr size_t kAnswerTextAt = kAnswerHostAt + kHostNameBytes;
constexpr size_t kAnswerPlacedAt = kAnswerTextAt + kAnswerTextBytes;
constexpr size_t kAnswerRailCountAt = kAnswerPlacedAt + sizeof(uint64_t);
constexpr size_t kAnswerRailsAt = kAnswerRailCountAt + 8;
static_assert(kAnswerRailsAt + kRailsMax * sizeof(Address) <= kAnswerBytes);

/// As far as there are bytes.
bool begins_with(std::span<const uint8_t> in, const std::array<uint8_t, 8>& magic) {
  const size_t bytes = std::min(in.size(), magic.size());
  return std::equal(magic.begin(), magic.begin() + bytes, in.begin());
}

}  // namespace

void encode(const Hello& hello, std::span<uint8_t, kHelloBytes> out) {
  std::fill(out.begin(), out.end(), uint8_t{0});
  std::copy(kHelloMagic.begin(), kHelloMagic.end(), out.begin());
  put_le<uint16_t>(out, kHelloVersionMinAt, hello.version_min);
  put_le<uint16_t>(out, kHelloVersionMaxAt, hello.version_max);
  put_le<uint16_t>(out, kLengthAt, kHelloBytes);
  put_le<uint16_t>(out, kStreamIndexAt, hello.stream_index);
  put_le<uint16_t>(out, kStreamCountAt, hello.stream_count);
  put_le<uint32_t>(out, kHelloPidAt, hello.pid);
  std::copy(hello.nonce.begin(), hello.nonce.end(), out.begin() + kHelloNonceAt);
  std::copy(hello.comm_id.begin(), hello.comm_id.end(), out.begin() + kCommIdAt);
  put_text(out, kHelloHostAt, kHostNameBytes - 1, hello.host);
  put_le<uint32_t>(out, kIncarnationAt, hello.incarnation);
  put_le<uint16_t>(out, kListenPortAt, hello.listen_port);
}

HelloState read_hello(std::span<const uint8_t> in, Hello* out) {
  if (!begins_with(in, kHelloMagic)) return HelloState::kStranger;
  if (in.size() < kHelloPrefixBytes) return HelloState::kMore;
  out->version_min = get_le<uint16_t>(in, kHelloVersionMinAt);
  out->version_max = get_le<uint16_t>(in, kHelloVersionMaxAt);
  const size_t bytes = get_le<uint16_t>(in, kLengthAt);
  if (bytes < kHelloPrefixBytes || bytes > kHelloBytesMax || out->version_min > out->version_max) {
    return HelloState::kStranger;
  }
  if (out->version_min > kProtocolVersionMax || out->version_max < kProtocolVersionMin) {
    return HelloState::kVersion;
  }
  // A newer peer may say more than this version understands.
  if (bytes < kHelloBytes) return HelloState::kStranger;
  if (in.size() < bytes) return HelloState::kMore;
  if (in.size() > bytes) return HelloState::kStranger;  // nothing is said before the answer
  out->stream_index = get_le<uint16_t>(in, kStreamIndexAt);
  out->stream_count = get_le<uint16_t>(in, kStreamCountAt);
  out->pid = get_le<uint32_t>(in, kHelloPidAt);
  std::copy_n(in.begin() + kHelloNonceAt, out->nonce.size(), out->nonce.begin());
  std::copy_n(in.begin() + kCommIdAt, out->comm_id.size(), out->comm_id.begin());
  out->host = get_text(in, kHelloHostAt, kHostNameBytes);
  out->incarnation = get_le<uint32_t>(in, kIncarnationAt);
  out->listen_port = get_le<uint16_t>(in, kListenPortAt);
  return HelloState::kComplete;
}

uint16_t common_version(const Hello& hello) {
  return std::min(hello.version_max, kProtocolVersionMax);
}

void encode(const Answer& answer, std::span<uint8_t, kAnswerBytes> out) {
  std::fill(out.begin(), out.end(), uint8_t{0});
  std::copy(kAnswerMagic.begin(), kAnswerMagic.end(), out.begin());
  put_le<uint16_t>(out, kAnswerVersionAt, answer.version);
  put_le<uint16_t>(out, kAnswerCodeAt, static_cast<uint16_t>(answer.code));
  put_le<uint32_t>(out, kAnswerPidAt, answer.pid);
  put_text(out, kAnswerHostAt, kHostNameBytes - 1, answer.host);
  put_text(out, kAnswerTextAt, kAnswerTextBytes - 1, answer.text);
  put_le<uint64_t>(out, kAnswerPlacedAt, answer.placed);
  const size_t rails = std::min(answer.rails.size(), kRailsMax);
  put_le<uint16_t>(out, kAnswerRailCountAt, static_cast<uint16_t>(rails));
  for (size_t i = 0; i < rails; ++i) {
    const auto at = static_cast<ptrdiff_t>(kAnswerRailsAt + i * sizeof(Address));
    std::copy(answer.rails[i].begin(), answer.rails[i].end(), out.begin() + at);
  }
}

bool begins_answer(std::span<const uint8_t> in) { return begins_with(in, kAnswerMagic); }

bool decode(std::span<const uint8_t, kAnswerBytes> in, Answer* out) {
  if (!begins_answer(in)) return false;
  out->version = get_le<uint16_t>(in, kAnswerVersionAt);
  const uint16_t code = get_le<uint16_t>(in, kAnswerCodeAt);
  if (code > static_cast<uint16_t>(AnswerCode::kRedialing)) return false;
  out->code = static_cast<AnswerCode>(code);
  out->pid = get_le<uint32_t>(in, kAnswerPidAt);
  out->host = get_text(in, kAnswerHostAt, kHostNameBytes);
  out->text = get_text(in, kAnswerTextAt, kAnswerTextBytes);
  out->placed = get_le<uint64_t>(in, kAnswerPlacedAt);
  const size_t rails = get_le<uint16_t>(in, kAnswerRailCountAt);
  if (rails > kRailsMax) return false;
  out->rails.resize(rails);
  for (size_t i = 0; i < rails; ++i) {
    const auto at = static_cast<ptrdiff_t>(kAnswerRailsAt + i * sizeof(Address));
    std::copy_n(in.begin() + at, sizeof(Address), out->rails[i].begin());
  }
  return true;
}

}  // namespace lyre::nccl_adapter
