#include "tests/io_contract/frames.h"

#include <cstddef>

namespace lyre::io::contract {
namespace {

constexpr uint8_t kSource[4] = {198, 18, 7, 1};  // RFC 2544 benchmarking range
constexpr uint8_t kTarget[4] = {198, 18, 7, 2};
constexpr size_t kIpAt = 14;
constexpr size_t kTcpAt = 34;
constexpr size_t kSequenceAt = kTcpAt + 4;

void put16(uint8_t* at, uint32_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}

void put32(uint8_t* at, uint32_t value) {
  put16(at, value >> 16);
  put16(at + 2, value & 0xffff);
}

uint32_t get16(const uint8_t* at) { return (uint32_t{at[0]} << 8) | at[1]; }

uint32_t sum16(std::span<const uint8_t> bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? uint32_t{bytes[i]} << 8 : uint32_t{bytes[i]};
  }
  return sum;
}

uint32_t fold(uint32_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

uint32_t pseudo_sum(uint32_t tcp_bytes) { return sum16(kSource) + sum16(kTarget) + 6 + tcp_bytes; }

}  // namespace

std::vector<uint8_t> pattern(uint32_t id, uint32_t bytes) {
  std::vector<uint8_t> out(bytes);
  uint32_t state = id * 2654435761u + 12345;
  for (uint8_t& byte : out) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return out;
}

std::vector<uint8_t> headers(uint32_t id, uint32_t payload_bytes) {
  std::vector<uint8_t> out(kHeaderBytes);
  // To all: a NIC drops what is for neither it nor everybody.
  const uint8_t ethernet[14] = {255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 7, 1, 8, 0};
  std::copy(std::begin(ethernet), std::end(ethernet), out.begin());
  uint8_t* ip = out.data() + kIpAt;
  ip[0] = 0x45;
  put16(ip + 2, kL3Bytes + kL4Bytes + payload_bytes);
  ip[8] = 64;
  ip[9] = 6;
  std::copy(std::begin(kSource), std::end(kSource), ip + 12);
  std::copy(std::begin(kTarget), std::end(kTarget), ip + 16);
  uint8_t* tcp = out.data() + kTcpAt;
  put16(tcp, 50123);
  put16(tcp + 2, 50124);
  put32(tcp + 4, id);
  tcp[12] = 5 << 4;
  tcp[13] = 0x10;
  put16(tcp + 14, 1000);
  put16(tcp + 16, fold(pseudo_sum(kL4Bytes + payload_bytes)));
  return out;
}

std::vector<uint8_t> frame(uint32_t id, uint32_t payload_bytes) {
  std::vector<uint8_t> out = headers(id, payload_bytes);
  const std::vector<uint8_t> payload = pattern(id, payload_bytes);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

bool is_ours(std::span<const uint8_t> frame) {
  return frame.size() >= kHeaderBytes && get16(frame.data() + 12) == 0x0800 &&
         std::equal(std::begin(kSource), std::end(kSource), frame.data() + kIpAt + 12);
}

uint32_t id_of(std::span<const uint8_t> frame) {
  return (get16(frame.data() + kSequenceAt) << 16) | get16(frame.data() + kSequenceAt + 2);
}

bool has_good_ip_checksum(std::span<const uint8_t> frame) {
  return fold(sum16(frame.subspan(kIpAt, kL3Bytes))) == 0xffff;
}

bool has_good_tcp_checksum(std::span<const uint8_t> frame) {
  const std::span<const uint8_t> tcp = frame.subspan(kTcpAt);
  return fold(pseudo_sum(static_cast<uint32_t>(tcp.size())) + sum16(tcp)) == 0xffff;
}

}  // namespace lyre::io::contract
