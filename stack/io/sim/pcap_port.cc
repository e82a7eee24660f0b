#include "stack/io/sim/pcap_port.h"

namespace lyre::io::sim {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

struct FileHeader {
  uint32_t magic = 0xa1b23c4d;  // nanosecond time stamps
  uint16_t major = 2;
  uint16_t minor = 4;
  uint32_t zone = 0;
  uint32_t accuracy = 0;
  uint32_t length_max = 65535 + 14;
  uint32_t link_type = 1;  // Ethernet
};

struct RecordHeader {
  uint32_t seconds;
  uint32_t nanoseconds;
  uint32_t kept_bytes;
  uint32_t original_bytes;
};

}  // namespace

PcapPort::PcapPort(PacketIo& inner, const char* path)
    : inner_(inner), file_(std::fopen(path, "wbe")) {
  const FileHeader header;
  if (file_ != nullptr) std::fwrite(&header, sizeof(header), 1, file_);
}

PcapPort::~PcapPort() {
  if (file_ != nullptr) std::fclose(file_);
}

void PcapPort::write(const PacketBuf& packet) {
  if (file_ == nullptr) return;
  RecordHeader record{static_cast<uint32_t>(now_.value / kSecondNs),
                      static_cast<uint32_t>(now_.value % kSecondNs), packet.length, packet.length};
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    record.original_bytes += packet.pieces[i].length;
  }
  std::fwrite(&record, sizeof(record), 1, file_);
  std::fwrite(packet.data, packet.length, 1, file_);
}

size_t PcapPort::rx_burst(std::span<PacketBuf*> out) {
  const size_t count = inner_.rx_burst(out);
  for (size_t i = 0; i < count; ++i) write(*out[i]);
  return count;
}

size_t PcapPort::tx_burst(std::span<PacketBuf* const> in) {
  if (in.empty()) return inner_.tx_burst(in);
  // Written to the file before it is sent, because a taken packet must not be accessed. The record
  // of a packet that is not taken is overwritten.
  size_t taken = 0;
  while (taken < in.size()) {
    const long at = file_ == nullptr ? 0 : std::ftell(file_);
    write(*in[taken]);
    if (inner_.tx_burst(in.subspan(taken, 1)) == 0) {
      if (file_ != nullptr) std::fseek(file_, at, SEEK_SET);
      break;
    }
    ++taken;
  }
  return taken;
}

}  // namespace lyre::io::sim
