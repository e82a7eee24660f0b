/* The XDP program of a port on an interface of the kernel. What is for an address of the port goes
 * to the port's socket, everything else to the kernel: one NIC carries both.
 *
 * To the port go
 * - IP packets to its addresses,
 * - ARP packets that ask for one of them or answer one, and those whose sender claims one
 *   (RFC 5227 2.1.1),
 * - neighbour solicitations and advertisements whose target is one of them (RFC 4861 4.3, 4.4).
 * A packet that arrives on a queue without a socket goes to the kernel. */
#include "own_addresses.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

enum { kQueuesMax = 256, kNeighbourSolicitation = 135, kNeighbourAdvertisement = 136 };

/* DPDK's driver finds the map by this name, and puts its sockets into it. */
struct {
  __uint(type, BPF_MAP_TYPE_XSKMAP);
  __type(key, __u32);
  __type(value, __u32);
  __uint(max_entries, kQueuesMax);
} xsks_map SEC(".maps");

const volatile struct lyre_own_addresses own = {.mark = LYRE_OWN_ADDRESSES_MARK};

/* An IEEE 802.1Q tag, after the type of the frame that says so. */
struct vlan_tag {
  __be16 priority_and_id;
  __be16 proto;
};

/* An ARP packet for IPv4 over Ethernet (RFC 826). */
struct arp_ipv4 {
  __u8 header[8];
  __u8 sender_mac[ETH_ALEN];
  __be32 sender;
  __u8 target_mac[ETH_ALEN];
  __be32 target;
} __attribute__((packed));

/* A neighbour solicitation or advertisement, up to its target. */
struct neighbour_message {
  struct icmp6hdr header;
  struct in6_addr target;
};

static __always_inline int is_own(__u64 high, __u64 low) {
  for (__u32 i = 0; i < LYRE_OWN_ADDRESSES_MAX; ++i) {
    if (i >= own.count) return 0;
    if (own.list[i].high == high && own.list[i].low == low) return 1;
  }
  return 0;
}

static __always_inline int is_own_ipv4(__be32 address) {
  return is_own(0, bpf_cpu_to_be64(0x0000ffff00000000ull | bpf_ntohl(address)));
}

static __always_inline int is_own_ipv6(const struct in6_addr* address) {
  const __u32* words = address->in6_u.u6_addr32;
  const __u64 high = (__u64)bpf_ntohl(words[0]) << 32 | bpf_ntohl(words[1]);
  const __u64 low = (__u64)bpf_ntohl(words[2]) << 32 | bpf_ntohl(words[3]);
  return is_own(bpf_cpu_to_be64(high), bpf_cpu_to_be64(low));
}

static __always_inline int is_for_own_ipv6(const struct ipv6hdr* ip, const void* end) {
  if (is_own_ipv6(&ip->daddr)) return 1;
  if (ip->nexthdr != IPPROTO_ICMPV6) return 0;
  const struct neighbour_message* message = (const void*)(ip + 1);
  if ((const void*)(message + 1) > end) return 0;
  if (message->header.icmp6_type != kNeighbourSolicitation &&
      message->header.icmp6_type != kNeighbourAdvertisement) {
    return 0;
  }
  return is_own_ipv6(&message->target);
}

static __always_inline int is_rest_for_own(__be16 proto, const void* rest, const void* end) {
  if (proto == bpf_htons(ETH_P_IP)) {
    const struct iphdr* ip = rest;
    return (const void*)(ip + 1) <= end && is_own_ipv4(ip->daddr);
  }
  if (proto == bpf_htons(ETH_P_IPV6)) {
    const struct ipv6hdr* ip = rest;
    return (const void*)(ip + 1) <= end && is_for_own_ipv6(ip, end);
  }
  if (proto == bpf_htons(ETH_P_ARP)) {
    const struct arp_ipv4* arp = rest;
    return (const void*)(arp + 1) <= end && (is_own_ipv4(arp->target) || is_own_ipv4(arp->sender));
  }
  return 0;
}

/* A tag with VLAN ID 0 only gives a priority. */
static __always_inline int is_for_own(const void* packet, const void* end) {
  const struct ethhdr* frame = packet;
  if ((const void*)(frame + 1) > end) return 0;
  if (frame->h_proto != bpf_htons(ETH_P_8021Q)) {
    return is_rest_for_own(frame->h_proto, frame + 1, end);
  }
  const struct vlan_tag* tag = (const void*)(frame + 1);
  if ((const void*)(tag + 1) > end || (tag->priority_and_id & bpf_htons(0x0fff)) != 0) return 0;
  return is_rest_for_own(tag->proto, tag + 1, end);
}

SEC("xdp")
int lyre_own_packets(struct xdp_md* context) {
  const void* packet = (const void*)(long)context->data;
  const void* end = (const void*)(long)context->data_end;
  if (!is_for_own(packet, end)) return XDP_PASS;
  return (int)bpf_redirect_map(&xsks_map, context->rx_queue_index, XDP_PASS);
}

/* The kernel asks for it; no helper that is reserved to the GPL is called. */
char _license[] SEC("license") = "Apache-2.0";
