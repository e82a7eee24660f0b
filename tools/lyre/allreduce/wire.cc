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

/// Follows what the parser of MessagePack finds. False at an array or object too deep: the parser
/// calls itself for each, and a stranger's frame must not use up the stack. (That of CBOR calls
/// itself for strings within strings as well, which it does not tell.)
class NestingCheck final : public nlohmann::json::json_sax_t {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= kDepthMax; }
  bool start_array(std::size_t) override { return ++depth_ <= kDepthMax; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  /// from_msgpack() finds the error once more, and names it.
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }
  bool is_too_deep() const { return depth_ > kDepthMax; }

 private:
  static constexpr int kDepthMax = 32;
  int depth_ = 0;
};

}  // namespace

bool send_frame(int fd, const Frame& frame) {
  const std::vector<uint8_t> payload = nlohmann::json::to_msgpack(frame.payload);
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
  NestingCheck nesting;
  nlohmann::json::sax_parse(begin, begin + header.bytes, &nesting,
                            nlohmann::json::input_format_t::msgpack);
  if (nesting.is_too_deep()) throw Failure("a frame is malformed: nested too deep");
  try {
    frame.payload = nlohmann::json::from_msgpack(begin, begin + header.bytes);
  } catch (const nlohmann::json::exception& error) {
    throw Failure(std::string("a frame is malformed: ") + error.what());
  }
  buffer_.erase(0, sizeof(header) + header.bytes);
  return frame;
}

}  // namespace lyre::allreduce
