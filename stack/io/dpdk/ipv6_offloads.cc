#include "stack/io/dpdk/ipv6_offloads.h"

#include <rte_byteorder.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_tcp.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace lyre::io::dpdk {
namespace {

/// More than the least that drivers take for TSO: 256 bytes (I40E_MIN_TSO_MSS).
constexpr uint16_t kCutBytes = 600;
constexpr uint16_t kPayloadBytes = 2 * kCutBytes;
constexpr uint16_t kTcpBytes = sizeof(rte_tcp_hdr) + kPayloadBytes;

/// Headers that are complete except for addresses and ports, which no driver looks at.
void write_headers(uint8_t* frame) {
  rte_ether_hdr ethernet = {};
  ethernet.ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV6);
  rte_ipv6_hdr ip = {};
  ip.vtc_flow = rte_cpu_to_be_32(uint32_t{6} << 28);
  ip.payload_len = rte_cpu_to_be_16(kTcpBytes);
  ip.proto = 6;  // TCP
  ip.hop_limits = 64;
  rte_tcp_hdr tcp = {};
  tcp.data_off = sizeof(tcp) / 4 << 4;
  tcp.tcp_flags = RTE_TCP_ACK_FLAG;
  std::memcpy(frame, &ethernet, sizeof(ethernet));
  std::memcpy(frame + sizeof(ethernet), &ip, sizeof(ip));
  std::memcpy(frame + sizeof(ethernet) + sizeof(ip), &tcp, sizeof(tcp));
}

/// Whether the driver would send a packet over IPv6 with this request. False for a packet that
/// does not fit a buffer. Fails: no buffer is free.
Result<bool> is_taken(uint16_t port_id, rte_mempool* pool, uint64_t request) {
  rte_mbuf* mbuf = rte_pktmbuf_alloc(pool);
  if (mbuf == nullptr) {
    char device[RTE_ETH_NAME_MAX_LEN] = {};
    rte_eth_dev_get_name_by_port(port_id, device);
    return Error{ENOMEM, std::string(device) + ": no packet buffer is free to ask it for offloads"};
  }
  char* frame = rte_pktmbuf_append(mbuf, sizeof(rte_ether_hdr) + sizeof(rte_ipv6_hdr) + kTcpBytes);
  bool taken = false;
  if (frame != nullptr) {
    std::memset(frame, 0, mbuf->data_len);
    write_headers(reinterpret_cast<uint8_t*>(frame));
    mbuf->l2_len = sizeof(rte_ether_hdr);
    mbuf->l3_len = sizeof(rte_ipv6_hdr);
    mbuf->l4_len = sizeof(rte_tcp_hdr);
    mbuf->tso_segsz = kCutBytes;
    mbuf->ol_flags |= RTE_MBUF_F_TX_IPV6 | request;
    taken = rte_eth_tx_prepare(port_id, 0, &mbuf, 1) == 1;
  }
  rte_pktmbuf_free(mbuf);
  return taken;
}

Status ask_driver(uint16_t port_id, rte_mempool* pool, PortSetup& setup) {
  const auto has_checksum = is_taken(port_id, pool, RTE_MBUF_F_TX_TCP_CKSUM);
  if (!has_checksum) return has_checksum.error();
  setup.has_ipv6_tcp_checksum = has_checksum.value();
  if (setup.capabilities.tso_bytes_max == 0) return Ok{};
  const auto has_tso = is_taken(port_id, pool, RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_TCP_SEG);
  if (!has_tso) return has_tso.error();
  setup.capabilities.has_ipv6_tso = has_checksum.value() && has_tso.value();
  return Ok{};
}

}  // namespace

Status limit_to_ipv6_offloads(uint16_t port_id, Memory& memory, PortSetup& setup) {
  if (!setup.has_tcp_checksum) return Ok{};
  Status asked = ask_driver(port_id, memory.copy_mempool(), setup);
  memory.return_cached();
  return asked;
}

}  // namespace lyre::io::dpdk
