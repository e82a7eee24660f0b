#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// Every reason for which a received packet, or a part of it, is not used. The enum, the counters
/// and the text of the CLI are made from this table. A dropped packet counts exactly once.
#define LYRE_DROP_REASONS(X)                                                                \
  X(kEthTooShort, "eth_too_short", "frame is shorter than an Ethernet header")              \
  X(kEthNotForUs, "eth_not_for_us", "destination MAC is neither ours nor broadcast")        \
  X(kEthUnknownType, "eth_unknown_type", "neither IP nor ARP, or with a VLAN tag (802.1Q)") \
  X(kArpMalformed, "arp_malformed", "ARP packet is short or not Ethernet/IPv4")             \
  X(kArpNotForUs, "arp_not_for_us", "ARP between other hosts with no new information")      \
  X(kArpConflict, "arp_conflict", "another machine claims an address of ours by ARP")       \
  X(kIpTooShort, "ip_too_short", "packet is shorter than its IP header or total length")    \
  X(kIpBadVersion, "ip_bad_version", "IP version is not that of the EtherType")             \
  X(kIpBadHeaderLength, "ip_bad_header_length", "IPv4 header length field is impossible")   \
  X(kIpBadChecksum, "ip_bad_checksum", "IPv4 header checksum is wrong")                     \
  X(kIpFragment, "ip_fragment", "IP fragment: reassembly is refused")                       \
  X(kIpBadExtension, "ip_bad_extension", "IPv6 extension header malformed or refused")      \
  X(kIpNotForUs, "ip_not_for_us", "IP destination is not an address of ours")               \
  X(kIpBadSource, "ip_bad_source", "IP source is broadcast, multicast, zero, loopback, us") \
  X(kIpUnknownProtocol, "ip_unknown_protocol", "IP protocol is neither TCP nor ICMP")       \
  X(kIcmpMalformed, "icmp_malformed", "ICMP message is short or its checksum is wrong")     \
  X(kIcmpIgnored, "icmp_ignored", "ICMP message that this host does not act on")            \
  X(kIcmpBadQuote, "icmp_bad_quote", "ICMP error quotes no connection or sequence of ours") \
  X(kIcmpRateLimited, "icmp_rate_limited", "ICMP reply withheld by the rate limit")         \
  X(kNdpMalformed, "ndp_malformed", "breaks a rule of neighbour discovery (RFC 4861)")      \
  X(kNdpNotForUs, "ndp_not_for_us", "neighbour discovery with nothing new in it")           \
  X(kNdpConflict, "ndp_conflict", "another machine claims an IPv6 address of ours")         \
  X(kTcpTooShort, "tcp_too_short", "segment is shorter than a TCP header")                  \
  X(kTcpBadDataOffset, "tcp_bad_data_offset", "TCP data offset points outside the segment") \
  X(kTcpBadChecksum, "tcp_bad_checksum", "TCP checksum is wrong")                           \
  X(kTcpBadFlags, "tcp_bad_flags", "TCP flags that no state accepts")                       \
  X(kTcpNoConnection, "tcp_no_connection", "no connection or listener for the 4-tuple")     \
  X(kTcpResetLimited, "tcp_reset_limited", "no connection; RST withheld by the rate limit") \
  X(kTcpBacklogFull, "tcp_backlog_full", "the listener's backlog is full")                  \
  X(kTcpNoSessions, "tcp_no_sessions", "SYN dropped: the worker has no free session")       \
  X(kRedirectFull, "redirect_full", "no room in the ring of its worker")                    \
  X(kTcpOutOfWindow, "tcp_out_of_window", "segment lies outside the receive window")        \
  X(kTcpPaws, "tcp_paws", "timestamp is older than the newest seen (PAWS)")                 \
  X(kTcpBadAck, "tcp_bad_ack", "acknowledges bytes that were never sent, or none at all")   \
  X(kTcpBadSyn, "tcp_bad_syn", "SYN inside an open connection")                             \
  X(kTcpBadReset, "tcp_bad_reset", "RST whose sequence number does not match exactly")      \
  X(kTcpDuplicate, "tcp_duplicate", "payload arrived before")                               \
  X(kTcpReassemblyFull, "tcp_reassembly_full", "no room to keep an out-of-order segment")   \
  X(kTcpAfterClose, "tcp_after_close", "payload for a session that its owner has closed")   \
  X(kRxBudget, "rx_budget", "the session or client holds all the receive slots it may")     \
  X(kRxPoolLow, "rx_pool_low", "its client has its share of the receive pool")              \
  X(kTxNoBuffer, "tx_no_buffer", "reply not sent: no transmit buffer")                      \
  X(kTxNoRoute, "tx_no_route", "packet not sent: no route to the destination")              \
  X(kTxUnresolved, "tx_unresolved", "packet not sent: the next hop's MAC is not known yet")

namespace lyre {

enum class Drop : uint8_t {
#define LYRE_X(name, key, text) name,
  LYRE_DROP_REASONS(LYRE_X)
#undef LYRE_X
      kCount
};

inline constexpr size_t kDropCount = static_cast<size_t>(Drop::kCount);

struct DropText {
  const char* key;   ///< for --json and counters
  const char* text;  ///< for the CLI
};

inline constexpr std::array<DropText, kDropCount> kDropTexts = {{
#define LYRE_X(name, key, text) {key, text},
    LYRE_DROP_REASONS(LYRE_X)
#undef LYRE_X
}};

}  // namespace lyre
