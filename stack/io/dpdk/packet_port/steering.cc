#include "stack/io/dpdk/packet_port/steering.h"

#include <linux/if_ether.h>
#include <netinet/in.h>

#include <array>

namespace lyre::io::dpdk {
namespace {

/// 2^32 divided by the golden ratio: neighbouring ports come to different queues.
constexpr uint32_t kMultiplier = 0x9e3779b1u;
constexpr uint32_t kShift = 16;

/// In a group's program the packet begins with the IP header. An offset by SKF_NET_OFF would read
/// the linear part of the packet only.
constexpr uint32_t kNet = 0;
constexpr uint32_t kProtocol = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PROTOCOL);
constexpr uint16_t kLoadByte = BPF_LD | BPF_B | BPF_ABS;
constexpr uint16_t kLoadHalf = BPF_LD | BPF_H | BPF_ABS;
constexpr uint16_t kLoadWord = BPF_LD | BPF_W | BPF_ABS;
constexpr uint16_t kIfEqual = BPF_JMP | BPF_JEQ | BPF_K;
constexpr uint16_t kIfAnyBit = BPF_JMP | BPF_JSET | BPF_K;

constexpr sock_filter step(uint16_t code, uint32_t k = 0) { return {code, 0, 0, k}; }
constexpr sock_filter jump(uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false) {
  return {code, if_true, if_false, k};
}

/// M[0] holds the exclusive or of words; this adds the word at `offset` of the IP header.
template <uint32_t kOffset>
constexpr std::array<sock_filter, 4> fold_in() {
  return {{step(kLoadWord, kNet + kOffset), step(BPF_LDX | BPF_MEM, 0),
           step(BPF_ALU | BPF_XOR | BPF_X), step(BPF_ST, 0)}};
}

template <size_t... kSizes>
constexpr auto concatenated(const std::array<sock_filter, kSizes>&... parts) {
  std::array<sock_filter, (kSizes + ...)> all{};
  size_t at = 0;
  const auto add = [&](const auto& part) {
    for (const sock_filter& instruction : part) all[at++] = instruction;
  };
  (add(parts), ...);
  return all;
}

/// REQUIRES: X is the length of the IP header, and M[0] the exclusive or of the addresses.
constexpr std::array<sock_filter, 10> kFinish{{
    step(BPF_LD | BPF_W | BPF_IND, kNet),  // both ports
    step(BPF_MISC | BPF_TAX),
    step(BPF_ALU | BPF_RSH | BPF_K, 16),
    step(BPF_ALU | BPF_XOR | BPF_X),
    step(BPF_ALU | BPF_AND | BPF_K, 0xffff),
    step(BPF_LDX | BPF_MEM, 0),
    step(BPF_ALU | BPF_XOR | BPF_X),
    step(BPF_ALU | BPF_MUL | BPF_K, kMultiplier),
    step(BPF_ALU | BPF_RSH | BPF_K, kShift),
    step(BPF_RET | BPF_A),
}};
constexpr std::array<sock_filter, 1> kToFirst{{step(BPF_RET | BPF_K, 0)}};

constexpr std::array<sock_filter, 6> kIpv4Only{{
    step(kLoadByte, kNet + 9),
    jump(kIfEqual, IPPROTO_TCP, 1, 0),
    step(BPF_RET | BPF_K, 0),
    step(kLoadHalf, kNet + 6),
    jump(kIfAnyBit, 0x3fff, 0, 1),  // RFC 791 3.1: more fragments, or an offset
    step(BPF_RET | BPF_K, 0),
}};
constexpr auto kIpv4 =
    concatenated(kIpv4Only, std::array{step(kLoadWord, kNet + 12), step(BPF_ST, 0)}, fold_in<16>(),
                 std::array{step(BPF_LDX | BPF_B | BPF_MSH, kNet)}, kFinish);

constexpr auto kIpv6 =
    concatenated(std::array{step(kLoadByte, kNet + 6), jump(kIfEqual, IPPROTO_TCP, 1, 0),
                            step(BPF_RET | BPF_K, 0), step(kLoadWord, kNet + 8), step(BPF_ST, 0)},
                 fold_in<12>(), fold_in<16>(), fold_in<20>(), fold_in<24>(), fold_in<28>(),
                 fold_in<32>(), fold_in<36>(), std::array{step(BPF_LDX | BPF_IMM, 40)}, kFinish);

constexpr auto kProgram = concatenated(
    std::array{step(kLoadWord, kProtocol), jump(kIfEqual, ETH_P_IPV6, 0, kIpv6.size())}, kIpv6,
    std::array{jump(kIfEqual, ETH_P_IP, 1, 0)}, kToFirst, kIpv4);

uint32_t word_at(const IpAddress& address, size_t at) {
  return uint32_t{address.bytes[at]} << 24 | uint32_t{address.bytes[at + 1]} << 16 |
         uint32_t{address.bytes[at + 2]} << 8 | address.bytes[at + 3];
}

}  // namespace

uint32_t steered_queue(const FourTuple& tuple, uint32_t queue_count) {
  uint32_t folded = uint32_t{tuple.local.port} ^ tuple.remote.port;
  for (size_t at = tuple.local.address.is_v4() ? 12 : 0; at < 16; at += 4) {
    folded ^= word_at(tuple.local.address, at) ^ word_at(tuple.remote.address, at);
  }
  return (folded * kMultiplier >> kShift) % queue_count;
}

std::span<const sock_filter> steering_program() { return kProgram; }

}  // namespace lyre::io::dpdk
