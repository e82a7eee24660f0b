#include "tools/lyre/allreduce/wire.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tools/lyre/allreduce/failure.h"

namespace lyre::allreduce {
namespace {

constexpr uint32_t kFrameBytesMax = 64U << 20;
constexpr uint16_t kFrameMagic = 0x4c41;

struct FrameHeader {
  uint32_t bytes;
  uint16_t magic;
  FrameType type;
  uint16_t rank;
  uint16_t reserved;
};
static_assert(sizeof(FrameHeader) == 12);

}  // namespace

bool send_frame(int fd, const Frame& frame) {
  const std::vector<uint8_t> payload = nlohmann::json::to_cbor(frame.payload);
  const FrameHeader header{.bytes = static_cast<uint32_t>(payload.size()),
                           .magic = kFrameMagic,
                           .type = frame.type,
                           .rank = frame.rank,
                           .reserved = 0};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.append(payload.begin(), payload.end());
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

bool FrameReader::read_some(int fd) {
  std::array<char, 65536> chunk;
  const ssize_t n = ::recv(fd, chunk.data(), chunk.size(), 0);
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  buffer_.append(chunk.data(), static_cast<size_t>(n));
  return n > 0;
}

std::optional<Frame> FrameReader::next() {
  FrameHeader header;
  if (buffer_.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, buffer_.data(), sizeof(header));
  if (header.magic != kFrameMagic || header.bytes > kFrameBytesMax) {
    throw Failure("the peer does not use the protocol of lyre allreduce");
  }
  if (buffer_.size() - sizeof(header) < header.bytes) return std::nullopt;
  const auto begin = buffer_.begin() + sizeof(header);
  Frame frame{header.type, header.rank, {}};
  try {
    frame.payload = nlohmann::json::from_cbor(begin, begin + header.bytes);
  } catch (const nlohmann::json::exception& error) {
    throw Failure(std::string("a frame is malformed: ") + error.what());
  }
  buffer_.erase(0, sizeof(header) + header.bytes);
  return frame;
}

}  // namespace lyre::allreduce
