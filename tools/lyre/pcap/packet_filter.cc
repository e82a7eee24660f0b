#include "tools/lyre/pcap/packet_filter.h"

#include <memory>

#include "stack/channel/capture.h"
#include "tools/lyre/failure.h"

namespace lyre::tools {

PacketFilter::PacketFilter(const std::string& expression) {
  if (expression.empty()) return;
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> handle(
      pcap_open_dead(DLT_EN10MB, static_cast<int>(channel::kSnapBytesMax)), pcap_close);
  if (handle == nullptr) throw Failure(kExitFailure, "no memory for libpcap");
  constexpr int kOptimize = 1;
  if (pcap_compile(handle.get(), &program_, expression.c_str(), kOptimize, PCAP_NETMASK_UNKNOWN) !=
      0) {
    throw Failure(kExitUsage, "the filter '" + expression + "': " + pcap_geterr(handle.get()) +
                                  " (see pcap-filter(7))");
  }
}

PacketFilter::~PacketFilter() { pcap_freecode(&program_); }

bool PacketFilter::takes(std::span<const uint8_t> bytes, uint32_t packet_bytes) const {
  if (is_empty()) return true;
  pcap_pkthdr header{};
  header.caplen = static_cast<bpf_u_int32>(bytes.size());
  header.len = packet_bytes;
  return pcap_offline_filter(&program_, &header, bytes.data()) != 0;
}

}  // namespace lyre::tools
