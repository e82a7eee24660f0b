#include "stack/io/sim/segmentation.h"

#include <cstring>

#include "stack/base/checksum.h"
#include "stack/io/complete_checksums.h"
#include "stack/io/sim/frame.h"

namespace lyre::io::sim {
namespace {

constexpr uint8_t kFin = 0x01;
constexpr uint8_t kPush = 0x08;
constexpr uint8_t kCwr = 0x80;

void put16(uint8_t* at, uint32_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}

}  // namespace

void make_cut_header(std::span<uint8_t> header, const TsoShape& shape, uint32_t index,
                     uint32_t count, uint32_t cut_payload_bytes, uint32_t total_payload_bytes) {
  uint8_t* ip = header.data() + kEthernetHeaderBytes;
  uint8_t* tcp = ip + shape.l3_bytes;
  if ((ip[0] >> 4) == 4) {
    put16(ip + 2, shape.l3_bytes + shape.l4_bytes + cut_payload_bytes);
    put16(ip + 4, get16(ip + 4) + index);
  } else {
    put16(ip + 4, shape.l3_bytes - 40 + shape.l4_bytes + cut_payload_bytes);
  }
  const uint32_t sequence =
      (get16(tcp + 4) << 16 | get16(tcp + 6)) + index * shape.payload_bytes_max;
  put16(tcp + 4, sequence >> 16);
  put16(tcp + 6, sequence);
  if (index + 1 < count) tcp[13] &= static_cast<uint8_t>(~(kFin | kPush));
  if (index > 0) tcp[13] &= static_cast<uint8_t>(~kCwr);
  ChecksumSum sum;
  sum.add({tcp + kTcpChecksumAt, 2});
  sum.add_u16(static_cast<uint16_t>(~(shape.l4_bytes + total_payload_bytes)));
  sum.add_u16(static_cast<uint16_t>(shape.l4_bytes + cut_payload_bytes));
  const uint16_t pseudo = sum.fold();
  std::memcpy(tcp + kTcpChecksumAt, &pseudo, sizeof(pseudo));
}

}  // namespace lyre::io::sim
