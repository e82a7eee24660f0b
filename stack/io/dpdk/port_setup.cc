#include "stack/io/dpdk/port_setup.h"

#include <net/if.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_memory.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "stack/io/dpdk/device_args.h"
#include "stack/io/dpdk/interrupt_thread.h"
#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/memif_segments.h"
#include "stack/io/dpdk/nic_check.h"
#include "stack/io/dpdk/port_search.h"
#include "stack/io/packet_io.h"

namespace lyre::io::dpdk {
namespace {

/// A super-packet fits one buffer of a memif ring, with its headers.
constexpr uint32_t kSuperPayloadBytesMax = kMemifBufferBytesMax - kFrameOverheadBytes - 60 - 60;

constexpr uint32_t kEthernetMtu = 1500;

/// Over which the NIC may spread packets.
constexpr uint64_t kSpread = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_IPV6 |
                             RTE_ETH_RSS_NONFRAG_IPV6_TCP;
/// A packet of 64 KiB needs several receive buffers. Its checksum may be left to this host.
constexpr uint64_t kLro =
    RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;

Error step_failed(const PortOptions& options, const std::string& what, int rc) {
  return Error{std::abs(rc), options.device + ": " + what + ": " + rte_strerror(std::abs(rc))};
}

/// The kernel's interface of a NIC that its driver shares with the kernel (mlx5, mlx4); empty: none
/// that the driver names.
std::string interface_of(const rte_eth_dev_info& device) {
  char name[IF_NAMESIZE] = {};
  return device.if_index != 0 && if_indextoname(device.if_index, name) != nullptr ? name : "";
}

bool has_all(uint64_t offered, uint64_t wanted) { return (offered & wanted) == wanted; }

class Configuration {
 public:
  Configuration(uint16_t port_id, const PortOptions& options, const DriverQuirks& quirks,
                bool has_interrupts, std::span<Memory* const> memories,
                std::span<rte_mempool* const> rx_pools)
      : port_id_(port_id),
        options_(options),
        quirks_(quirks),
        has_interrupts_(has_interrupts),
        memories_(memories),
        rx_pools_(rx_pools) {}

  Result<PortSetup> run() {
    const int rc = rte_eth_dev_info_get(port_id_, &device_);
    if (rc != 0) return step_failed(options_, "its properties cannot be read", rc);
    if (Status done = check_limits(); !done) return done.error();
    if (Status done = check_super_packets(); !done) return done.error();
    choose_transmit();
    choose_receive();
    if (Status done = configure(); !done) return done.error();
    for (uint16_t i = 0; i < memories_.size(); ++i) {
      if (Status done = setup_queue(i); !done) return done.error();
    }
    // netvsc opens its channel anew, and gives the new one to queues that are set up.
    if (Status done = tell_mtu(); !done) return done.error();
    fill_capabilities();
    return setup_;
  }

 private:
  Status check_limits() const {
    const size_t queues_max = std::min(device_.max_rx_queues, device_.max_tx_queues);
    if (memories_.size() > queues_max) {
      return Error{EINVAL, options_.device + ": has " + std::to_string(queues_max) +
                               " queue pairs, and there are " + std::to_string(memories_.size()) +
                               " workers, allowed: workers.cores with at most " +
                               std::to_string(queues_max)};
    }
    const DriverQuirks& limiting = queue_quirks();
    if (limiting.needs_power_of_two_queues && !std::has_single_bit(memories_.size())) {
      return Error{EINVAL, options_.device + ": " + std::string(limiting.driver) +
                               " takes 1, 2, 4, 8 or so many workers, and there are " +
                               std::to_string(memories_.size()) + ", allowed: workers.cores with " +
                               std::to_string(std::bit_floor(memories_.size()))};
    }
    if (quirks_.checks_mtu && options_.mtu_bytes > mtu_max()) {
      return Error{EINVAL, options_.device + ": MTU " + std::to_string(options_.mtu_bytes) +
                               " is more than the device allows: " + std::to_string(mtu_max())};
    }
    return Ok{};
  }

  /// Of the driver that limits the number of queues.
  const DriverQuirks& queue_quirks() const {
    if (!quirks_.is_over_function) return quirks_;
    const DriverQuirks* limiting = &quirks_;
    on_interrupt_thread([&] {
      const auto function = find_function(port_id_);
      rte_eth_dev_info device = {};
      if (!function || rte_eth_dev_info_get(*function, &device) != 0) return;
      limiting = &quirks_of(device.driver_name);
    });
    return *limiting;
  }

  Status check_super_packets() const {
    if (!options_.has_super_packets || quirks_.super_packets == SuperPackets::kUncut) {
      return Ok{};
    }
    const auto refuse = [&](const std::string& why) {
      return Error{ENOTSUP, options_.device + ": no super-packets: " + why};
    };
    if (quirks_.super_packets == SuperPackets::kNone) {
      return refuse("they are for memif, net_af_packet and virtio NICs, and this is " +
                    std::string(device_.driver_name));
    }
    if (!has_all(device_.rx_offload_capa, kLro)) {
      return refuse("the host does not offer guest_csum, guest_tso4, guest_tso6 and mrg_rxbuf");
    }
    if (memories_.size() > 1 && (device_.flow_type_rss_offloads & kSpread) == 0) {
      return refuse("the host does not offer RSS, and there are " +
                    std::to_string(memories_.size()) + " workers, which cannot hand them on");
    }
    return Ok{};
  }

  uint32_t mtu_max() const { return mtu_limit(device_.max_mtu, device_.max_rx_pktlen); }

  bool can_gather() const {
    if (is_memif()) return gathers_on_memif(dpdk_version(), options_.has_super_packets);
    return quirks_.can_gather;
  }

  void choose_transmit() {
    uint64_t& offloads = config_.txmode.offloads;
    const uint64_t offered = device_.tx_offload_capa;
    if (can_gather() && has_all(offered, RTE_ETH_TX_OFFLOAD_MULTI_SEGS)) {
      offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
      setup_.limits = transmit_limits(
          quirks_, {device_.tx_desc_lim.nb_mtu_seg_max, device_.tx_desc_lim.nb_seg_max});
    }
    if (options_.has_super_packets && quirks_.super_packets == SuperPackets::kUncut) {
      setup_.capabilities.tso_bytes_max = kSuperPayloadBytesMax;
    }
    if (!quirks_.uses_checksums) return;
    setup_.has_ip_checksum = has_all(offered, RTE_ETH_TX_OFFLOAD_IPV4_CKSUM);
    setup_.has_tcp_checksum = has_all(offered, RTE_ETH_TX_OFFLOAD_TCP_CKSUM);
    setup_.is_faulty = quirks_.is_faulty_without_ip_checksum && !setup_.has_ip_checksum;
    if (setup_.has_ip_checksum) offloads |= RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
    if (setup_.has_tcp_checksum) offloads |= RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
    if (options_.use_tso && !setup_.is_faulty && setup_.has_tcp_checksum &&
        setup_.limits.segments_max > 1 && has_all(offered, RTE_ETH_TX_OFFLOAD_TCP_TSO)) {
      offloads |= RTE_ETH_TX_OFFLOAD_TCP_TSO;
      setup_.capabilities.tso_bytes_max = kTsoPayloadBytesMax;
    }
  }

  void choose_receive() {
    uint64_t& offloads = config_.rxmode.offloads;
    const uint64_t offered = device_.rx_offload_capa;
    if (quirks_.uses_checksums) {
      offloads |= offered & (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM);
    }
    const uint32_t room = rte_pktmbuf_data_room_size(memories_[0]->rx_mempool());
    if (options_.has_super_packets) {
      const uint32_t bytes = room - RTE_PKTMBUF_HEADROOM;
      setup_.super_packet_slots = (kMemifBufferBytesMax + bytes - 1) / bytes;
      if (quirks_.super_packets == SuperPackets::kLro) offloads |= kLro;
    }
    if (options_.mtu_bytes + kFrameOverheadBytes + RTE_PKTMBUF_HEADROOM > room) {
      offloads |= offered & RTE_ETH_RX_OFFLOAD_SCATTER;
    }
    const uint64_t spread = device_.flow_type_rss_offloads & kSpread;
    if (memories_.size() < 2 || spread == 0) return;
    setup_.rss_hashes = spread;
    config_.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    config_.rx_adv_conf.rss_conf.rss_hf = spread;
    offloads |= offered & RTE_ETH_RX_OFFLOAD_RSS_HASH;
  }

  Status configure() {
    // Virtual devices report MTU limits that they do not enforce; what they carry is configured
    // elsewhere.
    config_.rxmode.mtu =
        quirks_.checks_mtu ? options_.mtu_bytes : std::min(options_.mtu_bytes, 1500u);
    config_.intr_conf.rxq = has_interrupts_;
    choose_link_interrupt();
    // Without it mlx5, mlx4 and mana do not tell that the device has failed. Each driver that has
    // this interrupt takes it beside those of the queues.
    config_.intr_conf.rmv = (*device_.dev_flags & RTE_ETH_DEV_INTR_RMV) != 0;
    const auto queues = static_cast<uint16_t>(memories_.size());
    int rc = rte_eth_dev_configure(port_id_, queues, queues, &config_);
    if (rc != 0) return step_failed(options_, "cannot be configured", rc);
    const auto first_given = [](uint32_t option, uint32_t known, uint32_t usual) {
      return static_cast<uint16_t>(option != 0 ? option : known != 0 ? known : usual);
    };
    rx_descriptors_ = first_given(options_.rx_descriptors, 0, quirks_.descriptors);
    // Drivers want powers of two, or multiples of some.
    const uint32_t rx_max = std::bit_floor(options_.rx_slots_max);
    if (rx_max > 0 && rx_max < rx_descriptors_) rx_descriptors_ = static_cast<uint16_t>(rx_max);
    tx_descriptors_ =
        first_given(options_.tx_descriptors, known_tx_descriptors(), quirks_.descriptors);
    rc = rte_eth_dev_adjust_nb_rx_tx_desc(port_id_, &rx_descriptors_, &tx_descriptors_);
    if (rc != 0) return step_failed(options_, "refuses every number of descriptors", rc);
    setup_.tx_descriptors = tx_descriptors_;
    return Ok{};
  }

  /// Of a transmit ring; 0: as of the others. A packed ring of virtio frees a packet when its
  /// descriptors are used again (virtio_xmit_pkts_packed()), and the number of descriptors limits
  /// how many are used (virtio_dev_tx_queue_setup()). Hosts that offer packed rings are known by
  /// the largest ring (virtio_dev_info_get()).
  uint32_t known_tx_descriptors() const {
    const bool is_packed = quirks_.is_lazy_to_free && device_.tx_desc_lim.nb_max == UINT16_MAX;
    return is_packed ? kFreedWithinPackets : quirks_.tx_descriptors;
  }

  /// Only for drivers that need it: some refuse it beside receive interrupts.
  void choose_link_interrupt() {
    const bool is_offered = (*device_.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
    if (quirks_.needs_link_interrupt) setup_.has_link_state = is_offered;
    config_.intr_conf.lsc = is_offered && (quirks_.needs_link_interrupt || can_announce());
  }

  bool can_announce() const {
    return quirks_.announces_itself &&
           has_link_interrupt(has_interrupts_, DeviceArgs::parse(options_.device).kernel_folder());
  }

  /// Some drivers learn the MTU from this call alone (ena_mtu_set, mana_mtu_set), and some take it
  /// only before the device starts (gve, i40e). A device that takes frames of the MTU already is
  /// left alone: the kernel keeps some of these interfaces, and netvsc closes its channel.
  Status tell_mtu() const {
    if (quirks_.is_virtual) return Ok{};
    const std::string interface = interface_of(device_);
    const uint32_t taken = interface.empty() ? kEthernetMtu : interface_mtu(interface);
    if (options_.mtu_bytes <= taken) return Ok{};
    const int rc = rte_eth_dev_set_mtu(port_id_, static_cast<uint16_t>(options_.mtu_bytes));
    const DpdkVersion& from = quirks_.tells_mtu_from;
    if (rc == -ENOTSUP && dpdk_version() < from) return untold_mtu();
    if (rc == 0 || (rc == -ENOTSUP && from == DpdkVersion{})) return Ok{};
    return step_failed(options_, "does not take MTU " + std::to_string(options_.mtu_bytes), rc);
  }

  Error untold_mtu() const {
    return Error{ENOTSUP, options_.device + ": MTU " + std::to_string(options_.mtu_bytes) +
                              " cannot be told to the host before DPDK " +
                              quirks_.tells_mtu_from.text() +
                              ", allowed: " + std::to_string(kEthernetMtu)};
  }

  Status setup_queue(uint16_t queue) {
    rte_eth_rxconf rx = device_.default_rxconf;
    rx.offloads = config_.rxmode.offloads;
    // Otherwise a full ring of some NICs stops reception into all of them (SRRCTL.DROP_EN of ixgbe,
    // igb and igc). One ring alone is left to the driver: em refuses it (eth_em_rx_queue_setup()).
    if (memories_.size() > 1) rx.rx_drop_en = 1;
    if (quirks_.refills_from_places != 0) {
      rx.rx_free_thresh = static_cast<uint16_t>(quirks_.refills_from_places);
    }
    rte_mempool* pool = rx_pools_.empty() ? memories_[queue]->rx_mempool() : rx_pools_[queue];
    int rc = near_device([&](unsigned node) {
      return rte_eth_rx_queue_setup(port_id_, queue, rx_descriptors_, node, &rx, pool);
    });
    if (rc != 0)
      return step_failed(options_, "cannot set up receive queue " + std::to_string(queue), rc);
    // Never MBUF_FAST_FREE: it returns attached client memory to the pool.
    rte_eth_txconf tx = device_.default_txconf;
    tx.offloads = config_.txmode.offloads;
    rc = near_device([&](unsigned node) { return setup_transmit_queue(queue, node, tx); });
    if (rc != 0)
      return step_failed(options_, "cannot set up transmit queue " + std::to_string(queue), rc);
    return Ok{};
  }

  /// A node without hugepages has no room for the driver's part of a queue: then any node has it.
  template <typename SetUp>
  int near_device(SetUp set_up) const {
    const int rc = set_up(static_cast<unsigned>(rte_eth_dev_socket_id(port_id_)));
    return rc == -ENOMEM ? set_up(static_cast<unsigned>(SOCKET_ID_ANY)) : rc;
  }

  /// The threshold of a driver that frees lazily must be as near to the ring's size as the driver
  /// allows, but the driver does not report that size: powers of two are tried downwards, with its
  /// log silenced.
  int setup_transmit_queue(uint16_t queue, unsigned node, rte_eth_txconf tx) const {
    constexpr uint16_t kRingMax = 4096;
    constexpr uint16_t kRingMin = 64;
    constexpr uint16_t kAlwaysLeft = 4;
    if (!quirks_.is_lazy_to_free) {
      const uint16_t threshold = tx_free_threshold(quirks_, tx_descriptors_);
      if (threshold != 0) tx.tx_free_thresh = threshold;
      return rte_eth_tx_queue_setup(port_id_, queue, tx_descriptors_, node, &tx);
    }
    const uint32_t log_level = rte_log_get_global_level();
    rte_log_set_global_level(RTE_LOG_EMERG);
    int rc = -EINVAL;
    for (uint16_t ring = kRingMax; rc != 0 && ring >= kRingMin; ring /= 2) {
      tx.tx_free_thresh = static_cast<uint16_t>(ring - kAlwaysLeft);
      rc = rte_eth_tx_queue_setup(port_id_, queue, tx_descriptors_, node, &tx);
    }
    rte_log_set_global_level(log_level);
    return rc;
  }

  void fill_capabilities() {
    IoCapabilities& out = setup_.capabilities;
    rte_ether_addr mac = {};
    if (rte_eth_macaddr_get(port_id_, &mac) == 0) {
      std::memcpy(out.mac.bytes.data(), mac.addr_bytes, out.mac.bytes.size());
    }
    out.mtu_bytes = options_.mtu_bytes;
    // For a port without gather the backend copies, so pieces are always allowed.
    out.tx_pieces_max = kTxPiecesMax;
    if (setup_.limits.segments_max > 1) {
      out.tx_pieces_max = std::min(kTxPiecesMax, setup_.limits.segments_max - 1);
    }
    out.cut_segments_max = setup_.limits.segments_max;
    out.tso_segments_max = setup_.limits.tso_segments_max;
    out.tx_checksum_in_hardware = setup_.has_tcp_checksum || is_memif_trusted();
    setup_.is_rx_trusted = options_.is_trusted;
    out.rx_checksum_in_hardware =
        setup_.is_rx_trusted || has_all(config_.rxmode.offloads, RTE_ETH_RX_OFFLOAD_TCP_CKSUM);
  }

  bool is_memif() const { return quirks_.driver == "net_memif"; }
  bool is_memif_trusted() const { return options_.is_trusted && is_memif(); }

  const uint16_t port_id_;
  const PortOptions& options_;
  const DriverQuirks& quirks_;
  const bool has_interrupts_;
  const std::span<Memory* const> memories_;
  const std::span<rte_mempool* const> rx_pools_;
  rte_eth_dev_info device_ = {};
  rte_eth_conf config_ = {};
  uint16_t rx_descriptors_ = 0;
  uint16_t tx_descriptors_ = 0;
  PortSetup setup_;
};

}  // namespace

/// The kernel shows the line's number. 0: the NIC has none.
bool has_link_interrupt(bool has_queue_interrupts, const std::string& kernel_folder) {
  if (has_queue_interrupts) return true;
  std::ifstream file(kernel_folder + "/irq");
  int line = 0;
  return file >> line && line > 0;
}

Result<PortSetup> configure_port(uint16_t port_id, const PortOptions& options,
                                 const DriverQuirks& quirks, bool has_interrupts,
                                 std::span<Memory* const> memories,
                                 std::span<rte_mempool* const> rx_pools) {
  return Configuration(port_id, options, quirks, has_interrupts, memories, rx_pools).run();
}

}  // namespace lyre::io::dpdk
