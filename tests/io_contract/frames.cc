#include "tests/io_contract/frames.h"

#include <algorithm>
#include <cstddef>

namespace lyre::io::contract {
namespace {

constexpr uint8_t kSource[4] = {198, 18, 7, 1};  // RFC 2544 benchmarking range
constexpr uint8_t kTarget[4] = {198, 18, 7, 2};
constexpr uint8_t kSource6[16] = {0x20, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 1};  // RFC 5180
constexpr uint8_t kTarget6[16] = {0x20, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 2};
constexpr size_t kIpAt = 14;

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

uint32_t pseudo_sum(Family family, uint32_t tcp_bytes) {
  const uint32_t addresses =
      family == Family::kIpv4 ? sum16(kSource) + sum16(kTarget) : sum16(kSource6) + sum16(kTarget6);
  return addresses + 6 + tcp_bytes;
}

Family family_of(std::span<const uint8_t> frame) {
  return get16(frame.data() + 12) == 0x0800 ? Family::kIpv4 : Family::kIpv6;
}

size_t tcp_at(Family family) { return kIpAt + l3_bytes_of(family); }

void put_ipv4(uint8_t* ip, uint32_t tcp_bytes) {
  ip[0] = 0x45;
  put16(ip + 2, kL3Bytes + tcp_bytes);
  ip[8] = 64;
  ip[9] = 6;
  std::copy(std::begin(kSource), std::end(kSource), ip + 12);
  std::copy(std::begin(kTarget), std::end(kTarget), ip + 16);
}

void put_ipv6(uint8_t* ip, uint32_t tcp_bytes) {
  ip[0] = 0x60;
  put16(ip + 4, tcp_bytes);
  ip[6] = 6;
  ip[7] = 64;
  std::copy(std::begin(kSource6), std::end(kSource6), ip + 8);
  std::copy(std::begin(kTarget6), std::end(kTarget6), ip + 24);
}

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

std::vector<uint8_t> headers(uint32_t id, uint32_t payload_bytes, Family family) {
  std::vector<uint8_t> out(tcp_at(family) + kL4Bytes);
  const bool is_ipv4 = family == Family::kIpv4;
  // To the broadcast address: a NIC drops frames for other hosts.
  const uint8_t ethernet[12] = {255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 7, 1};
  std::copy(std::begin(ethernet), std::end(ethernet), out.begin());
  put16(out.data() + 12, is_ipv4 ? 0x0800 : 0x86dd);
  const uint32_t tcp_bytes = kL4Bytes + payload_bytes;
  (is_ipv4 ? put_ipv4 : put_ipv6)(out.data() + kIpAt, tcp_bytes);
  uint8_t* tcp = out.data() + tcp_at(family);
  put16(tcp, 50123);
  put16(tcp + 2, 50124);
  put32(tcp + 4, id);
  tcp[12] = 5 << 4;
  tcp[13] = 0x10;
  put16(tcp + 14, 1000);
  put16(tcp + 16, fold(pseudo_sum(family, tcp_bytes)));
  return out;
}

std::vector<uint8_t> frame(uint32_t id, uint32_t payload_bytes, Family family) {
  std::vector<uint8_t> out = headers(id, payload_bytes, family);
  const std::vector<uint8_t> payload = pattern(id, payload_bytes);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

bool is_ours(std::span<const uint8_t> frame) {
  if (frame.size() < kHeaderBytes) return false;
  if (get16(frame.data() + 12) == 0x0800) {
    return std::equal(std::begin(kSource), std::end(kSource), frame.data() + kIpAt + 12);
  }
  return get16(frame.data() + 12) == 0x86dd &&
         std::equal(std::begin(kSource6), std::end(kSource6), frame.data() + kIpAt + 8);
}

uint32_t id_of(std::span<const uint8_t> frame) {
  const uint8_t* sequence = frame.data() + tcp_at(family_of(frame)) + 4;
  return (get16(sequence) << 16) | get16(sequence + 2);
}

bool has_good_ip_checksum(std::span<const uint8_t> frame) {
  return fold(sum16(frame.subspan(kIpAt, kL3Bytes))) == 0xffff;
}

bool has_good_tcp_checksum(std::span<const uint8_t> frame) {
  const Family family = family_of(frame);
  const std::span<const uint8_t> tcp = frame.subspan(tcp_at(family));
  return fold(pseudo_sum(family, static_cast<uint32_t>(tcp.size())) + sum16(tcp)) == 0xffff;
}

}  // namespace lyre::io::contract
