#include "stack/io/dpdk/driver_quirks.h"

#include <algorithm>

#include "stack/io/packet_io.h"

namespace lyre::io::dpdk {
namespace {

/// NICs round the size of receive buffers down to a supported size, often a power of two.
constexpr uint32_t kNicRoomBytes = 2048;
/// XDP reserves 256 bytes in front of each packet.
constexpr uint32_t kXdpHeadroomBytes = 256;
/// Of a TSO packet in a transmit ring of kFreedWithinPackets descriptors: a packet that does not
/// fit the ring stops it. Six pieces on pages of 4 KiB have 29. Intel's *_xmit_cleanup() may be
/// called only while 32 descriptors are in use, so a packet may need all of the ring but 33.
constexpr uint32_t kShortRingSegmentsMax = 64;
/// 15.5 KiB: what a descriptor of an ixgbe NIC takes. Linux cuts at 16 KiB (ixgbe) and 32 KiB (igb,
/// igc), and DPDK does not cut (ixgbe_xmit_pkts(), eth_igb_xmit_pkts(), igc_xmit_pkts(), 22.11 to
/// 26.07).
constexpr uint32_t kUncutSegmentBytesMax = 15872;

/// Of a driver without a row: see docs/user/clouds.md. qede, sfc, axgbe, ionic, atlantic,
/// idpf and cpfl need just this.
constexpr DriverQuirks kNic = {.driver = "",
                               .can_gather = false,
                               .rx_room_bytes_min = kNicRoomBytes,
                               .tx_descriptors = kFreedWithinPackets,
                               .frees = Frees::kWhenSending};

/// Of a driver of Intel's NICs, or a copy of one, that frees a packet when its descriptors are used
/// again.
constexpr DriverQuirks frees_by_reuse(DriverQuirks row) {
  row.rx_room_bytes_min = kNicRoomBytes;
  row.tx_descriptors = kFreedWithinPackets;
  row.frees = Frees::kWhenSending;
  row.tso_segments_max = kShortRingSegmentsMax;
  return row;
}

constexpr DriverQuirks kKnownDrivers[] = {
    {.driver = "net_virtio",
     .super_packets = SuperPackets::kLro,
     .rx_room_bytes_min = kNicRoomBytes,
     .is_lazy_to_free = true,
     .announces_itself = true},
    // It refuses nb_segs >= the size that it reports (eth_ena_prep_pkts). EC2 gives one flow 5 Gb/s
    // outside of a placement group, and the driver reports no speed.
    // Without intr_conf.lsc ena_configure_aenq() masks the event that alone sets the link's state.
    // ena_close() of 22.11 keeps the admin queues and their memory zones, which the next probe
    // makes again; eth_ena_dev_uninit() frees them, and is not called once the port is closed.
    // ena_timer_wd_callback() reports no reset that a queue has triggered. ena_tx_cleanup() frees
    // by the request ID of each completion. ena_tx_map_mbuf() copies 96 bytes, or 224 with large
    // LLQ entries, which the device may choose (llq_policy, 24.07).
    // Of multicast neither this driver nor those of gve and mana tell the NIC anything (22.11 to
    // 26.07). Nor do Linux's, on which IPv6 finds neighbours: no ndo_set_rx_mode.
    {.driver = "net_ena",
     .rx_room_bytes_min = kNicRoomBytes,
     .segments_spare = 1,
     .has_timers = true,
     .flow_mbps = 5000,
     .needs_link_interrupt = true,
     .closes_by_removal = true,
     .counts_faults = true,
     .frees_in_any_order = true,
     .push_bytes_max = 224,
     .has_multicast_filter = false},
    // More than ten descriptors for a packet on the wire stop the queue; one is the headers, and a
    // buffer of more than 16383 bytes takes two. It looks for sent packets only when few
    // descriptors are free (gve_tx_burst_dqo(): 32 of the ring by default), and then at up to 127
    // completions (4 x tx_rs_thresh - 1) for each packet that it sends: with fewer descriptors it
    // would look more often than it finds something. With more of them it might look for the first
    // time only after the kFreedWithinPackets packets that the worker sends to have all freed.
    // Before 26.07, the receive ring points to delivered packets until it is filled again, and
    // gve_release_rxq_mbufs_dqo() frees these when the port stops. Only the queue format DQO has
    // IPv4 checksums. With GQI, gve_tx_burst_qpl() with TSO ignores what rte_pktmbuf_read()
    // returns, which copies nothing that is contiguous (mended in 26.07), and gve_free_bulk_mbuf()
    // leaves the first packet that it freed in the ring, which is freed again when the port stops.
    // gve_tx_clean_dqo() frees by the tag of each completion, and the device repeats packets late.
    // gve_link_update() sleeps for an admin command, and answers "up" while the port is started.
    {.driver = "net_gve",
     .rx_room_bytes_min = kNicRoomBytes,
     .frees_from_descriptors = 96,
     .refills_from_places = 1,
     .frees = Frees::kWhenSending,
     .segments_max = 9,
     .is_up_while_started = true,
     .is_faulty_without_ip_checksum = true,
     .frees_in_any_order = true,
     .has_multicast_filter = false},
    // mana_dev_configure() refuses other numbers of queues. mana_alloc_pmd_mr() looks for a buffer
    // in the pool of its mbuf only. Until 26.07 mana_stop_rx_queues() takes a full ring for empty.
    {.driver = "net_mana",
     .rx_room_bytes_min = kNicRoomBytes,
     .needs_power_of_two_queues = true,
     .reads_pools_only = true,
     .loses_rx_ring = true,
     .has_multicast_filter = false},
    // Packets leave by the virtual function while it is there, which DPDK cannot be told of. The
    // virtual function's driver is not asked to free: hn_dev_tx_done_cleanup() asks the VMbus only.
    // Its ring is as large as netvsc's, and mlx4 frees a packet when its place there is used again.
    // hn_nvs_conf_ndis() tells the host MTU 1500, and hn_dev_mtu_set() came with 24.03. It has no
    // rx_queue_intr_enable. hn_dev_link_update() sends two queries to the host, and sleeps 10 ms
    // at a time until each is answered (hn_rndis_exec1()), for up to a minute.
    // hn_dev_stats_get() adds its own counters to those of the function. Without the function it
    // adds rx_mbuf_alloc_failed to itself, which rte_eth_stats_get() has set before (22.11 to
    // 26.07): of packets that the host passed, those lost for want of a buffer count twice.
    // hn_dev_mc_addr_list() and hn_dev_allmulticast_enable() return what the virtual function's
    // driver does, after the host has been asked for all groups. MANA's has neither.
    {.driver = "net_netvsc",
     .rx_room_bytes_min = kNicRoomBytes,
     .tx_descriptors = kFreedWithinPackets,
     .reads_pools_only = true,
     .is_slow_to_tell_link = true,
     .is_over_function = true,
     .has_rx_interrupts = false,
     .has_multicast_filter = false,
     .tells_mtu_from = {24, 3, 0}},
    // Without inlining (prepare_nic()) it reports 58 segments (mlx5_set_txlimit_params()), and does
    // not count the up to 192 bytes of headers that TSO copies into a request: 40 leave the room.
    {.driver = "mlx5_pci",
     .rx_room_bytes_min = kNicRoomBytes,
     .frees = Frees::kOnStatus,
     .tso_segments_max = 40},
    // It has no dma_map: mlx4_tx_update_ext_mp() registers the pool of an mbuf.
    // It reports no limit: a work request has 528 bytes (MLX4_MAX_WQE_SIZE), in units of 64, for 16
    // of control, a copy of the headers, and 16 for each segment. It has no tx_done_cleanup, and
    // mlx4_tx_burst() frees a packet when its place in the ring is used again.
    {.driver = "net_mlx4",
     .rx_room_bytes_min = kNicRoomBytes,
     .tx_descriptors = kFreedWithinPackets,
     .reads_pools_only = true,
     .frees = Frees::kWhenSending,
     .segments_max = 22,
     .tso_segments_max = 22},
    // The tx_done_cleanup of iavf, ice, i40e and ixgbe frees packets that were not sent. With 31
    // descriptors in use *_tx_done_cleanup_full() calls *_xmit_cleanup(), which looks at one that
    // is not in use, whose done bit is set since *_reset_tx_queue(). After that more descriptors
    // count as free than there are, and the queue may stop. In 26.07 it also frees again what
    // ci_tx_xmit_cleanup() has freed. Without it a packet is freed when its descriptors are used
    // again, or with 32 of them (26.07): a worker nudges as often as a ring has descriptors. The
    // ring holds four TSO packets of 64 KiB on pages of 4 KiB, which take 84 us at 25 Gb/s, as much
    // as a worker sends. A packet that waits is offered again after 50 us (kTransmitRetryFirst).
    // 22.11 reports no limit for ice and iavf. More than eight descriptors for a packet on the wire
    // are an attack for these NICs.
    // While its host resets it (vf_reset), iavf_dev_stop() of DPDK 22.11 returns before
    // iavf_stop_queues() (24.11 does not), and iavf_dev_close() releases no queue: only
    // iavf_dev_{rx,tx}_queue_release() free their packets, as ethdev calls them for a queue that is
    // set up again. After iavf_dev_init() has failed in a reset the port counts as closed, and
    // iavf_dev_info_get() refuses every other way there. Another iavf_dev_reset() skips what the
    // first one has closed, also the bus master bit where that was not set: such resets fail for
    // ever. iavf_init_vf() may free qos_cap twice when it fails again (22.11.9). Both end with a
    // bounded number of resets in a row: after it the port is closed, and the packets are lost.
    frees_by_reuse({.driver = "net_iavf", .segments_max = 8, .frees_by_reset_only = true}),
    frees_by_reuse({.driver = "net_ice", .segments_max = 8}),
    // The function that controls others of an 800 series NIC: it sends by net_ice's functions.
    frees_by_reuse({.driver = "net_ice_dcf", .segments_max = 8}),
    frees_by_reuse({.driver = "net_i40e", .segments_max = 8}),
    frees_by_reuse({.driver = "net_ixgbe", .segment_bytes_max = kUncutSegmentBytesMax}),
    // ixgbevf_dev_rx_init() refuses other numbers of queues.
    frees_by_reuse({.driver = "net_ixgbe_vf",
                    .needs_power_of_two_queues = true,
                    .segment_bytes_max = kUncutSegmentBytesMax}),
    // txgbe and ngbe are copies of ixgbe's driver: their *_tx_done_cleanup_full() has no check of
    // the descriptors in use at all (22.11 to 26.07), and they do not cut segments either.
    frees_by_reuse({.driver = "net_txgbe", .segment_bytes_max = kUncutSegmentBytesMax}),
    // txgbevf_dev_rx_init() refuses other numbers of queues.
    frees_by_reuse({.driver = "net_txgbe_vf",
                    .needs_power_of_two_queues = true,
                    .segment_bytes_max = kUncutSegmentBytesMax}),
    frees_by_reuse({.driver = "net_ngbe", .segment_bytes_max = kUncutSegmentBytesMax}),
    // ngbevf_dev_rx_init() refuses other numbers of queues. Came with 25.03.
    frees_by_reuse({.driver = "net_ngbe_vf",
                    .needs_power_of_two_queues = true,
                    .segment_bytes_max = kUncutSegmentBytesMax}),
    // Its tx_done_cleanup stops the queue: igb_tx_done_cleanup() takes each segment of a packet for
    // a packet of its own, and eth_igb_xmit_pkts() then waits for a status that the NIC writes to
    // the last one only. Without it a packet is freed when its descriptors are used again.
    frees_by_reuse({.driver = "net_e1000_igb", .segment_bytes_max = kUncutSegmentBytesMax}),
    frees_by_reuse({.driver = "net_e1000_igb_vf", .segment_bytes_max = kUncutSegmentBytesMax}),
    // It has no tx_done_cleanup, and frees a packet when its descriptors are used again.
    {.driver = "net_e1000_em",
     .rx_room_bytes_min = kNicRoomBytes,
     .tx_descriptors = kFreedWithinPackets,
     .frees = Frees::kWhenSending},
    // Its tx_done_cleanup crashes: eth_igc_tx_done_cleanup() frees the mbuf of a context
    // descriptor, which has none. It frees a packet when its descriptors are used again.
    frees_by_reuse({.driver = "net_igc", .segment_bytes_max = kUncutSegmentBytesMax}),
    // It reports no limit, and refuses a packet of more than 32 descriptors (BNXT_MAX_TSO_SEGS)
    // each time that it is offered, with all behind it. One of them describes no segment.
    {.driver = "net_bnxt",
     .rx_room_bytes_min = kNicRoomBytes,
     .segments_max = 31,
     .tso_segments_max = 31},
    // It frees sent packets when few descriptors are free (hinic_xmit_pkts(): 32 of the ring by
    // default), also in an empty burst.
    {.driver = "net_hinic", .rx_room_bytes_min = kNicRoomBytes, .frees_from_descriptors = 4},
    // It reports 255 for TSO, and refuses more than 24 (VMXNET3_MAX_TSO_TXD_PER_PKT, from 24.11
    // on). A descriptor has 14 bits for the length, and vmxnet3_xmit_pkts() writes a longer one
    // over the bits beside them. It frees a packet with more segments than free descriptors, unless
    // none is free, and counts it as sent.
    {.driver = "net_vmxnet3",
     .rx_room_bytes_min = kNicRoomBytes,
     .tso_segments_max = 24,
     .segment_bytes_max = 16383,
     .drops_when_full = true},
    // A descriptor has 14 bits for the length, and wq_enet_desc_enc() cuts a longer one to them:
    // the NIC sends fewer bytes. The driver asks the NIC for a completion of 32 descriptors at a
    // time (ENIC_WQ_CQ_THRESH), and frees these in an empty burst.
    {.driver = "net_enic", .rx_room_bytes_min = kNicRoomBytes, .segment_bytes_max = 16383},
    // Eight buffers in a row of a TSO packet must have more bytes than an MSS
    // (hns3_pkt_need_linearized()), which only rte_eth_tx_prepare() checks. A packet of eight has
    // no such row to check. The driver reports 63.
    {.driver = "net_hns3", .rx_room_bytes_min = kNicRoomBytes, .tso_segments_max = 8},
    {.driver = "net_hns3_vf", .rx_room_bytes_min = kNicRoomBytes, .tso_segments_max = 8},
    // It gathers in some versions only: see gathers_on_memif().
    {.driver = "net_memif",
     .is_virtual = true,
     .uses_checksums = false,
     .checks_mtu = false,
     .super_packets = SuperPackets::kUncut,
     .frees_while_polled = true},
    // The driver copies pkt_len bytes from the first segment even of a chain, and leaks the others.
    // kick_tx() repeats send() for as long as the kernel answers EAGAIN or EBUSY: a worker spins
    // there while the transmit queue of the interface is full.
    {.driver = "net_af_xdp",
     .is_virtual = true,
     .can_gather = false,
     .uses_checksums = false,
     .checks_mtu = false,
     .wait = WaitKind::kXdpSocket,
     .rx_extra_bytes = kXdpHeadroomBytes,
     .descriptors = 2048,
     .loses_rx_ring = true},
    // The driver computes its offloads in software, from the first segment only. It gives the
    // kernel the segments by writev(), which fails where a client has truncated the file behind its
    // memory: the driver would stop at that packet for as long as it is offered.
    {.driver = "net_tap",
     .is_virtual = true,
     .can_gather = false,
     .uses_checksums = false,
     .wait = WaitKind::kQueueInterrupt},
};

}  // namespace

TransmitLimits transmit_limits(const DriverQuirks& quirks, const TransmitLimits& reported) {
  constexpr uint32_t kUnlimited = UINT16_MAX;  // rte_mbuf::nb_segs
  const auto limit = [&](uint32_t stated, uint32_t known) {
    const uint32_t least = stated == 0 ? kUnlimited : stated - quirks.segments_spare;
    return known == 0 ? least : std::min(least, known);
  };
  TransmitLimits out;
  out.tso_segments_max = limit(reported.tso_segments_max, quirks.tso_segments_max);
  // Some drivers report only the limit of whole packets, which is one of every packet.
  out.segments_max =
      std::min(limit(reported.segments_max, quirks.segments_max), out.tso_segments_max);
  return out;
}

Fall fall_of_counters(const DriverQuirks& quirks) {
  return quirks.is_over_function ? Fall::kPartGone : Fall::kBegunAgain;
}

bool tries_interrupts(const DriverQuirks& quirks) {
  return quirks.is_virtual ? quirks.wait == WaitKind::kQueueInterrupt : quirks.has_rx_interrupts;
}

uint16_t tx_free_threshold(const DriverQuirks& quirks, uint32_t descriptors) {
  const uint32_t in_use = quirks.frees_from_descriptors;
  return static_cast<uint16_t>(in_use == 0 || in_use >= descriptors ? 0 : descriptors - in_use);
}

/// Some drivers count the CRC to a frame and some, such as gve and mana, do not: as ethdev does, a
/// reported MTU is used, and only without one it is computed from the frame.
uint32_t mtu_limit(uint32_t reported_mtu, uint32_t frame_bytes) {
  constexpr uint32_t kHeaderAndCrcBytes = 14 + 4;
  if (reported_mtu != UINT16_MAX && frame_bytes > reported_mtu) return reported_mtu;
  const uint32_t of_frame = frame_bytes > kHeaderAndCrcBytes ? frame_bytes - kHeaderAndCrcBytes : 0;
  return std::min(reported_mtu, of_frame);
}

const DriverQuirks& quirks_of(std::string_view driver) {
  for (const DriverQuirks& row : kKnownDrivers) {
    if (row.driver == driver) return row;
  }
  return kNic;
}

}  // namespace lyre::io::dpdk
