#include "stack/io/dpdk/port.h"

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_timer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <iterator>

#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/memif_wait.h"
#include "stack/io/dpdk/nic_check.h"

namespace lyre::io::dpdk {
namespace {

Error dpdk_error(const std::string& what, int rc) {
  return Error{std::abs(rc), what + ": " + rte_strerror(std::abs(rc))};
}

/// Starts a port with DPDK's log silenced: a port without a peer fails to start, which is no error.
int start_quietly(uint16_t port_id) {
  constexpr const char* kMemifLog = "pmd.net.memif";
  const int level = rte_log_get_level(rte_log_register(kMemifLog));
  rte_log_set_level_pattern(kMemifLog, RTE_LOG_CRIT);
  const int rc = rte_eth_dev_start(port_id);
  rte_log_set_level_pattern(kMemifLog, static_cast<uint32_t>(level));
  return rc;
}

/// Waits until DPDK's interrupt thread has finished its current callback, with a timeout. When a
/// memif peer leaves, that thread frees the connection; a port that is closed meanwhile frees it
/// twice.
void let_interrupt_thread_finish() {
  constexpr int kTriesMax = 1000;
  constexpr useconds_t kTryUs = 100;
  std::atomic<bool> is_done{false};
  const auto note = [](void* flag) {
    static_cast<std::atomic<bool>*>(flag)->store(true);  // release: pairs with the load below
  };
  if (rte_eal_alarm_set(1, note, &is_done) != 0) return;
  for (int i = 0; i < kTriesMax && !is_done.load(); ++i) usleep(kTryUs);
  rte_eal_alarm_cancel(note, &is_done);
}

}  // namespace

Result<std::unique_ptr<Port>> EthernetPort::open(const PortOptions& options, DmaMap& dma_map,
                                                 std::span<Memory* const> memories) {
  std::unique_ptr<EthernetPort> port(new EthernetPort(options, dma_map));
  if (memories.empty()) return Error{EINVAL, options.device + ": no worker to serve"};
  if (Status done = port->attach(static_cast<uint32_t>(memories.size())); !done) {
    return done.error();
  }
  if (Status done = port->start(memories); !done) return done.error();
  return std::unique_ptr<Port>(std::move(port));
}

EthernetPort::~EthernetPort() {
  if (!is_attached_) return;
  events_.ignore();
  let_interrupt_thread_finish();
  rte_eth_dev_stop(port_id_);
  queues_.clear();
  // Before the port closes, because some drivers release the device there.
  if (is_dma_attached_) dma_map_.remove_device(device_, is_vfio_);
  rte_eth_dev_close(port_id_);
  rte_dev_remove(device_);
}

Status EthernetPort::attach(uint32_t queue_count) {
  quirks_ = &quirks_of(args_.driver());
  sockets_before_ = sockets_of(socket_domain());
  if (!args_.is_pci()) {
    if (Status done = attach_virtual(queue_count); !done) return done;
  } else if (rte_eth_dev_get_port_by_name(args_.name().c_str(), &port_id_) != 0) {
    // A NIC that was open before and was given back.
    if (Status fit = prepare_nic(pci_nic_of(args_.name()), dpdk_version(), args_); !fit) return fit;
    rte_dev_probe(args_.text().c_str());
  }
  if (rte_eth_dev_get_port_by_name(args_.name().c_str(), &port_id_) != 0) {
    const std::string driver = kernel_driver_of(args_.name());
    return Error{ENODEV, args_.name() + ": DPDK has no such port" +
                             (args_.is_pci() ? "; it must be bound to vfio-pci or "
                                               "uio_pci_generic and is bound to " +
                                                   (driver.empty() ? "nothing" : driver)
                                             : std::string())};
  }
  rte_eth_dev_info device = {};
  if (const int rc = rte_eth_dev_info_get(port_id_, &device); rc != 0) {
    return dpdk_error(args_.name() + ": its properties cannot be read", rc);
  }
  is_attached_ = true;
  device_ = device.device;
  info_.driver = device.driver_name;
  quirks_ = &quirks_of(info_.driver);
  return quirks_->is_virtual ? check_interface() : attach_dma();
}

Status EthernetPort::attach_virtual(uint32_t queue_count) {
  uint16_t known = 0;
  if (rte_eth_dev_get_port_by_name(args_.name().c_str(), &known) == 0) {
    return Error{EEXIST, args_.name() + ": is already open; give each port its own number"};
  }
  if (Status done = prepare_virtual_device(args_, options_.mtu_bytes, queue_count); !done) {
    return done;
  }
  const int rc = rte_dev_probe(args_.text().c_str());
  if (rc != 0) return dpdk_error(args_.name() + ": cannot be made (" + args_.text() + ")", rc);
  return Ok{};
}

Status EthernetPort::attach_dma() {
  is_vfio_ = kernel_driver_of(args_.name()) == "vfio-pci";
  is_dma_attached_ = true;
  if (!dma_map_.add_device(device_, is_vfio_)) {
    return Error{ENOMEM, args_.name() + ": cannot reach the packet memory"};
  }
  return Ok{};
}

/// Checks that the kernel interface under the port carries frames of the MTU.
Status EthernetPort::check_interface() {
  const std::string interface(args_.value_of("iface"));
  if (interface.empty()) return Ok{};
  const uint32_t mtu = interface_mtu(interface);
  if (mtu >= options_.mtu_bytes) return Ok{};
  return Error{EINVAL, args_.name() + ": MTU " + std::to_string(options_.mtu_bytes) +
                           " is more than that of " + interface + ": " + std::to_string(mtu)};
}

Status EthernetPort::start(std::span<Memory* const> memories) {
  PortSetup setup;
  // Whether a NIC's driver has receive interrupts is known only when it starts with them.
  Status started = start_with(wants_interrupts(), memories, setup);
  if (!started && wants_interrupts() && !quirks_->is_virtual) {
    started = start_with(false, memories, setup);
  }
  if (!started) return started;
  memories_.assign(memories.begin(), memories.end());
  events_.listen(port_id_);
  sockets_ = new_sockets();
  describe_port(setup, memories.size());
  make_queues(setup, memories);
  return Ok{};
}

bool EthernetPort::wants_interrupts() const {
  return !quirks_->is_virtual || quirks_->wait == WaitKind::kQueueInterrupt;
}

Status EthernetPort::start_with(bool has_interrupts, std::span<Memory* const> memories,
                                PortSetup& setup) {
  auto configured = configure_port(port_id_, options_, *quirks_, has_interrupts, memories);
  if (!configured) return configured.error();
  setup = *configured;
  has_interrupts_ = has_interrupts;
  const int rc = start_device();
  is_started_ = rc == 0;
  // A memif client starts when its server runs; until then the port has no link.
  if (rc != 0 && !is_memif_client_) return dpdk_error(args_.name() + ": cannot be started", rc);
  return Ok{};
}

void EthernetPort::describe_port(const PortSetup& setup, size_t queue_count) {
  info_.name = args_.name();
  info_.numa_node = rte_eth_dev_socket_id(port_id_);
  info_.queue_count = static_cast<uint32_t>(queue_count);
  info_.does_dma = !quirks_->is_virtual;
  info_.has_rss = setup.has_rss;
  info_.capabilities = setup.capabilities;
  info_.pci_path = args_.is_pci() ? pci_path_of_address(args_.name())
                                  : pci_path_of_interface(std::string(args_.value_of("iface")));
}

PortSpeed EthernetPort::speed() const {
  PortSpeed speed{.flow_mbps = quirks_->flow_mbps};
  rte_eth_link link = {};
  // Virtual devices report a made-up speed.
  if (!quirks_->is_virtual && rte_eth_link_get_nowait(port_id_, &link) == 0 &&
      link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN) {
    speed.port_mbps = link.link_speed;
  }
  return speed;
}

void EthernetPort::make_queues(const PortSetup& setup, std::span<Memory* const> memories) {
  for (uint16_t i = 0; i < memories.size(); ++i) {
    QueueSetup queue{.port_id = port_id_,
                     .queue_id = i,
                     .index = options_.index,
                     .capabilities = info_.capabilities,
                     .quirks = quirks_,
                     .limits = setup.limits,
                     .is_rx_trusted = options_.is_trusted,
                     .is_tx_trusted = options_.is_trusted && args_.driver() == "net_memif",
                     .has_ip_checksum = setup.has_ip_checksum,
                     .has_tcp_checksum = setup.has_tcp_checksum,
                     .interface = std::string(args_.value_of("iface"))};
    queues_.push_back(std::make_unique<Queue>(queue, *memories[i]));
    queues_.back()->set_running(is_started_);
    queues_.back()->set_wait(wait_of(i, memories.size()));
  }
}

int EthernetPort::socket_domain() const {
  return quirks_->wait == WaitKind::kXdpSocket ? AF_XDP : AF_PACKET;
}

std::vector<int> EthernetPort::new_sockets() const {
  const std::vector<int> now = sockets_of(socket_domain());
  std::vector<int> added;
  std::set_difference(now.begin(), now.end(), sockets_before_.begin(), sockets_before_.end(),
                      std::back_inserter(added));
  return added;
}

std::unique_ptr<RxWait> EthernetPort::wait_of(uint16_t queue, size_t queue_count) const {
  if (!quirks_->is_virtual) return InterruptWait::make(port_id_, queue);
  if (args_.driver() == "net_memif") {
    return std::make_unique<MemifWait>(
        MemifWait::Ring{.port_id = port_id_,
                        .queue_id = queue,
                        .is_server = !is_memif_client_,
                        .queue_count = static_cast<uint16_t>(queue_count)});
  }
  int fd = -1;
  if (quirks_->wait == WaitKind::kQueueInterrupt) {
    fd = rte_eth_dev_rx_intr_ctl_q_get_fd(port_id_, queue);
  } else if (queue < sockets_.size()) {
    fd = sockets_[queue];
  }
  return fd < 0 ? nullptr : std::make_unique<SocketWait>(fd);
}

Status EthernetPort::join(std::span<const MacAddress> groups) {
  groups_.assign(groups.begin(), groups.end());
  std::vector<rte_ether_addr> list(groups_.size());
  for (size_t i = 0; i < groups_.size(); ++i) {
    std::copy(groups_[i].bytes.begin(), groups_[i].bytes.end(), list[i].addr_bytes);
  }
  int rc = rte_eth_dev_set_mc_addr_list(port_id_, list.data(), static_cast<uint32_t>(list.size()));
  if (rc != 0) rc = rte_eth_allmulticast_enable(port_id_);
  // A virtual device that supports neither does not filter at all.
  if (rc == 0 || quirks_->is_virtual) return Ok{};
  return dpdk_error(args_.name() + ": cannot receive multicast frames", rc);
}

uint64_t EthernetPort::rx_missed() const {
  rte_eth_stats stats = {};
  if (rte_eth_stats_get(port_id_, &stats) != 0) return 0;
  // Virtual devices count each failed attempt to get a buffer; the frame stays in their ring.
  return stats.imissed + (quirks_->is_virtual ? 0 : stats.rx_nombuf);
}

/// A memif client whose server has not answered yet is not restarted: a server that receives the
/// remains of several abandoned attempts can abort (DPDK 22.11).
bool EthernetPort::needs_restart() const {
  if (events_.state() == PortState::kResetting) return true;
  if (events_.state() == PortState::kGone) return is_running_;
  if (!is_memif_client_ || is_link_up()) return false;
  const std::vector<uint64_t> open = unix_connections();
  return std::find(open.begin(), open.end(), connection_) == open.end();
}

Status EthernetPort::restart() {
  let_interrupt_thread_finish();
  if (events_.state() == PortState::kGone) return leave_device();
  if (events_.state() != PortState::kResetting) {
    rte_eth_dev_stop(port_id_);
  } else if (const int rc = reset_device(); rc != 0) {
    set_running(false);
    return dpdk_error(args_.name() + ": cannot be reset", rc);
  }
  for (const auto& queue : queues_) queue->drop_pending();
  const int rc = start_device();
  for (const auto& queue : queues_) queue->on_restart();
  set_running(rc == 0);
  if (rc != 0) return dpdk_error(args_.name() + ": cannot be started again", rc);
  events_.on_reset_done();
  // Some drivers lose their multicast filters when they stop.
  return groups_.empty() ? Status(Ok{}) : join(std::vector<MacAddress>(groups_));
}

/// Nobody uses the queues of a device that is gone.
Status EthernetPort::leave_device() {
  rte_eth_dev_stop(port_id_);
  for (const auto& queue : queues_) queue->drop_pending();
  set_running(false);
  return Error{ENODEV, args_.name() + ": is gone"};
}

/// The device forgets everything: it is configured as at the start, for the queues that workers
/// have. Its driver frees the packets that it holds.
int EthernetPort::reset_device() {
  const int rc = rte_eth_dev_reset(port_id_);
  if (rc == -ENOTSUP) return rte_eth_dev_stop(port_id_);
  if (rc != 0) return rc;
  const auto again = configure_port(port_id_, options_, *quirks_, has_interrupts_, memories_);
  return again.ok() ? 0 : -again.error().code;
}

void EthernetPort::run_timers() {
  if (quirks_->has_timers) rte_timer_manage();
}

int EthernetPort::start_device() {
  if (!is_memif_client_) return rte_eth_dev_start(port_id_);
  // The driver does not return its socket: it is the one that appears during the start.
  const std::vector<uint64_t> before = unix_connections();
  const int rc = start_quietly(port_id_);
  connection_ = kNoConnection;
  for (const uint64_t open : unix_connections()) {
    if (std::find(before.begin(), before.end(), open) == before.end()) connection_ = open;
  }
  return rc;
}

void EthernetPort::set_running(bool is_running) {
  is_running_ = is_running;
  for (const auto& queue : queues_) queue->set_running(is_running);
}

}  // namespace lyre::io::dpdk
