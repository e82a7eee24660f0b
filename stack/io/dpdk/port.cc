#include "stack/io/dpdk/port.h"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_log.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "stack/io/dpdk/eal.h"
#include "stack/io/dpdk/interface_faults.h"
#include "stack/io/dpdk/interrupt_thread.h"
#include "stack/io/dpdk/ipv6_offloads.h"
#include "stack/io/dpdk/log.h"
#include "stack/io/dpdk/memif_memory.h"
#include "stack/io/dpdk/memif_segments.h"
#include "stack/io/dpdk/memif_wait.h"
#include "stack/io/dpdk/multicast_filter.h"
#include "stack/io/dpdk/nic_check.h"
#include "stack/io/dpdk/nic_open.h"
#include "stack/io/dpdk/port_errors.h"
#include "stack/io/dpdk/port_search.h"
#include "stack/io/dpdk/rss_query.h"

namespace lyre::io::dpdk {
namespace {

/// After an AF_XDP socket has been closed, a thread of the kernel frees its queue of the interface,
/// and nobody is told when: 10 to 40 ms later on a busy machine. It cannot be opened before that.
constexpr useconds_t kXdpReleaseUs = 200'000;

/// `said`: during the call. A driver may return -1 for anything, and log the cause.
Error dpdk_error(const std::string& what, int rc, LogQuote* said = nullptr) {
  const std::string text = rte_strerror(std::abs(rc));
  return Error{std::abs(rc), what + ": " + (said == nullptr ? text : said->cause(text))};
}

/// The driver makes the kernel interface under the port.
bool makes_interface(const DeviceArgs& args) { return args.driver() == "net_tap"; }

/// Whether a device that was `before` is the same, if need be after its address was set again.
bool keeps_identity(uint16_t port_id, IoCapabilities now, const IoCapabilities& before) {
  if (now == before) return true;
  now.mac = before.mac;
  rte_ether_addr mac = {};
  std::copy(before.mac.bytes.begin(), before.mac.bytes.end(), mac.addr_bytes);
  return now == before && rte_eth_dev_default_mac_addr_set(port_id, &mac) == 0;
}

/// These drivers generate a random MAC address unless one is given.
void keep_mac(DeviceArgs& args, const MacAddress& mac) {
  const bool has_random_mac = args.driver() == "net_memif" || makes_interface(args);
  if (has_random_mac) args.set_default("mac", mac_text(mac.bytes));
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

/// The driver does not return its socket: `connection` becomes the one that appears meanwhile.
int start_memif_client(uint16_t port_id, uint64_t& connection) {
  const auto before = unix_connections();
  const int rc = start_quietly(port_id);
  const auto after = unix_connections();
  if (!before || !after) return rc;
  for (const uint64_t open : *after) {
    if (std::find(before->begin(), before->end(), open) == before->end()) connection = open;
  }
  return rc;
}

DmaMap::Reach reach_of(const DriverQuirks& quirks, const std::string& kernel_driver) {
  if (quirks.reads_pools_only) return DmaMap::Reach::kPoolsOnly;
  return kernel_driver == "vfio-pci" ? DmaMap::Reach::kVfio : DmaMap::Reach::kDriver;
}

/// The lock under which devices are added and removed, unless reopen() has it already: `held`.
DmaMap::DeviceLock hold_devices(DmaMap& dma_map, const DmaMap::DeviceLock& held) {
  return held.owns_lock() ? DmaMap::DeviceLock() : dma_map.lock_devices();
}

}  // namespace

Result<std::unique_ptr<Port>> EthernetPort::open(const PortOptions& options, DmaMap& dma_map,
                                                 std::span<Memory* const> memories) {
  if (memories.empty()) return Error{EINVAL, options.device + ": no worker to serve"};
  std::unique_ptr<EthernetPort> port(new EthernetPort(options, dma_map, memories));
  if (options.mac) keep_mac(port->args_, *options.mac);
  port->info_.rss_key = options.rss_key;
  if (Status done = port->open_device(); !done) return done.error();
  port->make_queues();
  return std::unique_ptr<Port>(std::move(port));
}

EthernetPort::~EthernetPort() {
  for (const auto& queue : queues_) queue->suspend();
  close_device();
}

Status EthernetPort::open_device() {
  const std::string interface(args_.value_of("iface"));
  const auto mac_before =
      makes_interface(args_) ? interface_mac(interface, interface_socket_) : std::nullopt;
  if (Status done = attach(); !done) return done;
  Status done = start();
  // An interface that another process made keeps what the kernel's side was given since then: the
  // driver gives it the port's own.
  if (done.ok() && mac_before && !set_interface_mac(interface, *mac_before, interface_socket_)) {
    return Error{EPERM, args_.name() + ": the MAC address of " + interface + " cannot be kept"};
  }
  return done;
}

void EthernetPort::close_device() {
  if (!is_attached_) return;
  is_attached_ = false;
  interface_groups_.leave();
  extended_stats_.close();
  missed_.restart();
  unbuffered_.restart();
  events_.ignore();
  let_interrupt_thread_finish();
  memif_listener_.end();
  rte_eth_dev_stop(port_id_);
  was_zero_copy_ = sockets_.is_any_zero_copy();
  // Before the port closes, because some drivers release the device there.
  if (is_dma_attached_) {
    const auto lock = hold_devices(dma_map_, device_lock_);
    dma_map_.remove_device(device_, reach_of(*quirks_, kernel_driver_));
  }
  is_dma_attached_ = false;
  if (!quirks_->closes_by_removal) rte_eth_dev_close(port_id_);
  if (!args_.is_vmbus()) rte_dev_remove(device_);  // that bus knows no removal
  xdp_program_.detach();
  sockets_.end();
  for (Memory* memory : memories_) memory->return_cached();
}

Status EthernetPort::attach() {
  const bool is_on_interface = !args_.value_of("iface").empty();
  if (is_on_interface && !interface_socket_.status()) return interface_socket_.status();
  quirks_ = &quirks_of(args_.driver());
  if (quirks_->wait == WaitKind::kXdpSocket) sockets_.begin();
  const Opening opening = device_ == nullptr ? Opening::kFirst : Opening::kAgain;
  Status made = args_.is_nic() ? open_nic(args_, opening) : attach_virtual();
  if (!made) return made;
  const auto found = find_port(args_);
  if (!found) return Error{ENODEV, args_.name() + ": DPDK has no such port"};
  port_id_ = *found;
  rte_eth_dev_info device = {};
  if (const int rc = rte_eth_dev_info_get(port_id_, &device); rc != 0) {
    return dpdk_error(args_.name() + ": its properties cannot be read", rc);
  }
  is_attached_ = true;
  memif_listener_.begin(args_);
  device_ = device.device;
  kernel_driver_ = kernel_driver_of(args_.kernel_folder());
  interface_index_ = interface_index(std::string(args_.value_of("iface")), interface_socket_);
  info_.driver = device.driver_name;
  quirks_ = &quirks_of(info_.driver);
  info_.warning = driver_warning(args_, info_.driver);
  if (quirks_->loses_rx_ring) watched_pools_.make(memories_);
  if (quirks_->segment_bytes_max < UINT16_MAX) {
    for (Memory* memory : memories_) memory->limit_segments(quirks_->segment_bytes_max);
  }
  return quirks_->is_virtual ? check_interface() : attach_dma();
}

Status EthernetPort::attach_virtual() {
  uint16_t known = 0;
  if (rte_eth_dev_get_port_by_name(args_.name().c_str(), &known) == 0) {
    return Error{EEXIST, args_.name() + ": is already open; give each port its own number"};
  }
  if (Status done = xdp_program_.prepare(args_, options_.addresses); !done) return done;
  const VirtualDeviceNeeds needs{.mtu_bytes = options_.mtu_bytes,
                                 .queue_count = static_cast<uint32_t>(memories_.size()),
                                 .is_trusted = options_.is_trusted,
                                 .has_super_packets = options_.has_super_packets};
  DeviceArgs prepared = args_;
  if (Status done = prepare_virtual_device(prepared, needs); !done) return done;
  if (!is_there()) {
    return no_interface(args_.name(), std::string(args_.value_of("iface")));
  }
  LogQuote said;
  const int rc = rte_dev_probe(prepared.text().c_str());
  if (rc == 0) return Ok{};
  return dpdk_error(args_.name() + ": cannot be made", rc, &said);
}

Status EthernetPort::attach_dma() {
  is_dma_attached_ = true;
  const auto lock = hold_devices(dma_map_, device_lock_);
  LogQuote said;
  const Status added = dma_map_.add_device(device_, reach_of(*quirks_, kernel_driver_));
  if (added.ok()) return Ok{};
  const std::string cause = said.cause(added.error().text);
  return Error{ENOMEM, args_.name() + ": cannot reach the packet memory: " +
                           why_unreachable(args_.kernel_folder(), cause)};
}

/// Checks that the kernel interface under the port carries frames of the MTU.
Status EthernetPort::check_interface() {
  const std::string interface(args_.value_of("iface"));
  if (interface.empty()) return Ok{};
  if (!has_ethernet_frames(interface, interface_socket_)) {
    return no_ethernet(args_.name(), interface);
  }
  const uint32_t mtu = interface_mtu(interface, interface_socket_);
  if (mtu < options_.mtu_bytes) {
    return small_mtu(args_.name(), options_.mtu_bytes, interface, mtu);
  }
  return Ok{};
}

Status EthernetPort::start() {
  const bool wants_interrupts = tries_interrupts(*quirks_);
  Status started = start_with(wants_interrupts);
  if (!started && wants_interrupts && !quirks_->is_virtual) started = start_with(false);
  sockets_.find();
  if (!started) return started;
  if (Status done = limit_to_ipv6_offloads(port_id_, *memories_[0], setup_); !done) return done;
  events_.listen(port_id_, args_.device_name());
  describe_port();
  extended_stats_.open(port_id_);
  return Ok{};
}

Status EthernetPort::start_with(bool has_interrupts) {
  auto configured = configure_port(port_id_, options_, *quirks_, has_interrupts, memories_,
                                   watched_pools_.mempools());
  if (!configured) return configured.error();
  setup_ = *configured;
  setup_.capabilities.is_beside_kernel = !xdp_program_.path().empty();
  has_interrupts_ = has_interrupts;
  const int rc = start_device();
  is_started_ = rc == 0;
  // A memif client starts when its server runs; until then the port has no link.
  if (rc != 0 && !is_memif_client_) return dpdk_error(args_.name() + ": cannot be started", rc);
  return Ok{};
}

void EthernetPort::describe_port() {
  info_.name = args_.name();
  info_.numa_node = rte_eth_dev_socket_id(port_id_);
  info_.queue_count = static_cast<uint32_t>(memories_.size());
  info_.does_dma = !quirks_->is_virtual;
  info_.has_rss = setup_.rss_hashes != 0;
  info_.frees_twice_when_closed = setup_.is_faulty;
  learn_spread();
  info_.capabilities = setup_.capabilities;
  info_.pci_path = pci_path_of(args_);
  if (info_.driver != "net_memif") return;
  info_.remark = memif_remark(dpdk_version(), options_.has_super_packets);
}

/// With another key, connections would change their workers, also in an upgrade.
void EthernetPort::learn_spread() {
  const bool has_rss = setup_.rss_hashes != 0;
  spread_ = has_rss ? restore_rss(port_id_, setup_.rss_hashes, info_.rss_key) : RssSpread{};
  info_.rss_key.assign(spread_.key.begin(), spread_.key.end());
}

bool EthernetPort::is_link_up() const {
  if (events_.state() != PortState::kRunning) return false;
  if (is_attached_ && !quirks_->is_virtual) link_.update(port_id_, *quirks_, setup_);
  return queues_[0]->is_link_up();
}

PortSpeed EthernetPort::speed() const {
  PortSpeed speed{.flow_mbps = quirks_->flow_mbps};
  // Virtual devices report a made-up speed.
  if (is_attached_ && !quirks_->is_virtual) {
    speed.port_mbps = link_.speed_mbps(port_id_, *quirks_);
  }
  return speed;
}

QueueSetup EthernetPort::queue_setup(uint16_t queue) const {
  return {.port_id = port_id_,
          .queue_id = queue,
          .index = options_.index,
          .capabilities = info_.capabilities,
          .quirks = quirks_,
          .is_nic_up = quirks_->is_virtual ? nullptr : link_.shown(),
          .limits = setup_.limits,
          .tx_descriptors = setup_.tx_descriptors,
          .super_packet_slots = setup_.super_packet_slots,
          .is_rx_trusted = setup_.is_rx_trusted,
          .is_tx_trusted = options_.is_trusted && args_.driver() == "net_memif",
          .has_ip_checksum = setup_.has_ip_checksum,
          .has_tcp_checksum = setup_.has_tcp_checksum,
          .has_ipv6_tcp_checksum = setup_.has_ipv6_tcp_checksum,
          .interface = std::string(args_.value_of("iface")),
          .interface_socket = &interface_socket_,
          .spread = spread_,
          .watched_pool = watched_pools_.of_queue(queue),
          .is_faulty = setup_.is_faulty};
}

void EthernetPort::make_queues() {
  for (uint16_t i = 0; i < memories_.size(); ++i) {
    queues_.push_back(std::make_unique<Queue>(queue_setup(i), *memories_[i]));
    queues_.back()->set_wait(wait_of(i));
    if (is_started_) queues_.back()->start();
  }
  is_running_ = is_started_;
  watches_.resize(queues_.size());
}

std::unique_ptr<RxWait> EthernetPort::wait_of(uint16_t queue) const {
  if (!quirks_->is_virtual) return InterruptWait::make(port_id_, queue);
  if (args_.driver() == "net_memif") {
    return std::make_unique<MemifWait>(
        MemifWait::Ring{.port_id = port_id_,
                        .queue_id = queue,
                        .is_server = !is_memif_client_,
                        .queue_count = static_cast<uint16_t>(memories_.size())});
  }
  const int fd = quirks_->wait == WaitKind::kQueueInterrupt
                     ? rte_eth_dev_rx_intr_ctl_q_get_fd(port_id_, queue)
                     : sockets_.of_queue(queue);
  return fd < 0 ? nullptr : std::make_unique<SocketWait>(fd);
}

Status EthernetPort::join(std::span<const MacAddress> groups) {
  groups_.assign(groups.begin(), groups.end());
  if (!is_attached_) return Ok{};  // resume() does it
  const int rc = receive_groups(port_id_, *quirks_, groups_);
  if (rc == 0) return Ok{};
  const std::string text = args_.name() + ": cannot receive multicast frames";
  if (!quirks_->is_virtual) return dpdk_error(text, rc);
  const std::string interface(args_.value_of("iface"));
  // A virtual device that supports neither does not filter at all. Under a kernel interface, a NIC
  // may do so.
  if (interface.empty() || makes_interface(args_)) return Ok{};
  const Status joined = interface_groups_.join(interface, groups_);
  if (joined) return Ok{};
  return Error{joined.error().code, text + ": " + joined.error().text};
}

uint64_t EthernetPort::rx_missed() {
  rte_eth_stats stats = {};
  if (is_attached_ && rte_eth_stats_get(port_id_, &stats) == 0) {
    const Fall fall = fall_of_counters(*quirks_);
    missed_.note(stats.imissed, fall);
    // Virtual devices count each failed attempt to get a buffer; the frame stays in their ring.
    if (!quirks_->is_virtual) unbuffered_.note(stats.rx_nombuf, fall);
  }
  return missed_.total() + unbuffered_.total();
}

void EthernetPort::look(Nanos now) {
  retry_.look(now);
  if (quirks_->has_timers && is_running_) timers_.look(now);
  if (quirks_->counts_faults && is_running_ && extended_stats_.has_new_faults()) {
    events_.on_event(RTE_ETH_EVENT_INTR_RESET);
  }
  if (is_attached_ && is_taken_away()) events_.on_away();
  if (is_stuck(now)) events_.on_stuck();
  look_at_interface(now);
  if (!quirks_->is_over_function || !is_running_) return;
  function_watch_.look(args_, port_id_, now);
  info_.warning = function_watch_.warning(first_error_of_start());
}

void EthernetPort::look_at_interface(Nanos now) {
  const std::string interface(args_.value_of("iface"));
  const bool is_due = now >= interface_look_at_;
  if (interface.empty() || makes_interface(args_) || !is_attached_ || !is_due) return;
  interface_look_at_ = now + kInterfaceLookInterval;
  const IoCapabilities& known = info_.capabilities;
  info_.warning = changed_interface(interface, known.mac, known.mtu_bytes, interface_socket_);
}

void EthernetPort::on_link_up() {
  if (args_.driver() == "net_memif") populate_memif_memory();
}

/// Not every driver reports the removal, so the device is looked up. A NIC may also have been given
/// to another kernel driver.
bool EthernetPort::is_taken_away() const {
  if (args_.is_nic()) return device_path(args_.kernel_folder()).empty() || !is_there();
  const std::string interface(args_.value_of("iface"));
  return !interface.empty() && is_interface_gone(interface, interface_index_, interface_socket_);
}

/// Whether the device can be opened. A NIC that is back belongs to another kernel driver first.
bool EthernetPort::is_there() const {
  if (args_.is_nic()) return kernel_driver_of(args_.kernel_folder()) == kernel_driver_;
  const std::string interface(args_.value_of("iface"));
  return interface.empty() || makes_interface(args_) ||
         interface_index(interface, interface_socket_) != 0;
}

/// A virtual device is full as long as its peer takes nothing, which no restart changes.
bool EthernetPort::is_stuck(Nanos now) {
  if (quirks_->is_virtual) return false;
  const bool is_up = is_link_up();
  bool is_any_stuck = false;
  for (size_t i = 0; i < queues_.size(); ++i) {
    if (!is_running_) watches_[i].forget();
    if (is_running_ && watches_[i].is_stuck(queues_[i]->tx_progress(), is_up, now)) {
      is_any_stuck = true;
    }
  }
  return is_any_stuck;
}

/// A memif client whose server has not answered yet is not restarted: a server that receives the
/// remains of several abandoned attempts can abort (DPDK 22.11).
bool EthernetPort::needs_restart() const {
  switch (events_.state()) {
    case PortState::kResetting:
    case PortState::kDraining:
      return is_running_ || retry_.is_due();
    case PortState::kAway:
      return is_running_ || (is_attached_ && !setup_.is_faulty) || (is_there() && retry_.is_due());
    case PortState::kRunning:
    case PortState::kRecovering:
      break;
  }
  if (is_ready_ || !is_memif_client_ || is_link_up()) return false;
  const auto open = unix_connections();
  return open && std::find(open->begin(), open->end(), connection_) == open->end();
}

void EthernetPort::suspend() {
  if (is_running_ && events_.state() == PortState::kDraining) {
    for (TxWatch& watch : watches_) watch.back_off();
  }
  is_running_ = is_ready_ = false;
  for (const auto& queue : queues_) queue->suspend();
}

Status EthernetPort::restart() {
  if (setup_.is_faulty) {
    retry_.note_failure();
    return frees_twice(args_.name());
  }
  let_interrupt_thread_finish();
  waits_for_memory_ = false;
  const PortState state = events_.state();
  // DPDK opens a NIC of the VMbus only when it starts: one that is there is not closed.
  const bool stays_open = state == PortState::kRunning || state == PortState::kRecovering ||
                          (args_.is_vmbus() && state != PortState::kAway);
  const bool is_reset = state == PortState::kResetting;
  Status done = is_reset ? reset() : Status(Ok{});
  if (!done && quirks_->frees_by_reset_only && !retry_.is_slowest()) {
    retry_.note_failure();
  } else if (!is_reset || !done) {
    done = stays_open ? stop_and_start() : reopen();
  }
  is_ready_ = done.ok();
  return done;
}

/// A virtual device holds no packet. What the host of a NIC on the VMbus still holds are copies of
/// client memory, in buffers that netvsc frees later.
Status EthernetPort::stop_and_start() {
  rte_eth_dev_stop(port_id_);
  for (const auto& queue : queues_) queue->on_closed();
  const int rc = start_device();
  is_started_ = rc == 0;
  if (!is_started_) {
    retry_.note_failure();
    return dpdk_error(args_.name() + ": cannot be started again", rc);
  }
  retry_.note_success();
  events_.on_restarted();
  return Ok{};
}

/// What the device asks for after this reset is another one. After a failure the port is still to
/// be reset, unless it is closed.
Status EthernetPort::reset() {
  LogQuote said;
  if (const int rc = rte_eth_dev_reset(port_id_); rc != 0) {
    return dpdk_error(args_.name() + ": cannot be reset", rc, &said);
  }
  events_.on_restarted();
  Status done = start_after_reset();
  if (!done) events_.on_event(RTE_ETH_EVENT_INTR_RESET);
  if (done) retry_.note_success();
  return done;
}

/// The device forgets everything: it is configured as at the start. Not every driver can do it.
/// Some draw another MAC address.
Status EthernetPort::start_after_reset() {
  if (Status started = start_with(has_interrupts_); !started) return started;
  if (Status done = limit_to_ipv6_offloads(port_id_, *memories_[0], setup_); !done) return done;
  if (!keeps_identity(port_id_, setup_.capabilities, info_.capabilities)) {
    return changed(args_.name());
  }
  learn_spread();
  extended_stats_.open(port_id_);
  for (const auto& queue : queues_) queue->on_closed();
  return Ok{};
}

/// Memory of a client may be mapped by another thread at this moment, for seconds. The control
/// thread does not wait for that.
Status EthernetPort::reopen() {
  auto lock = dma_map_.try_lock_devices();
  if (!lock) {
    waits_for_memory_ = true;
    return Error{EAGAIN, args_.name() + ": memory is being mapped"};
  }
  device_lock_ = std::move(*lock);
  Status opened = close_and_open();
  device_lock_ = {};
  return opened;
}

/// Its driver frees the packets that it holds when it closes, or else close() does it.
Status EthernetPort::close_and_open() {
  const IoCapabilities before = info_.capabilities;
  close();
  if (!is_there()) return Error{ENODEV, args_.name() + ": is not there"};
  if (!watched_pools_.has_room(quirks_->descriptors)) {
    retry_.note_failure();
    return lacks_slots(args_.name());
  }
  Status opened = open_device();
  if (opened.ok() && info_.capabilities != before) opened = changed(args_.name());
  if (opened.ok()) {
    retry_.note_success();
    return opened;
  }
  info_.capabilities = before;
  close();
  retry_.note_failure();
  return opened;
}

void EthernetPort::close() {
  const bool had_xdp_socket = is_attached_ && quirks_->wait == WaitKind::kXdpSocket;
  close_device();
  if (had_xdp_socket) usleep(kXdpReleaseUs);
  watched_pools_.take_back(interface_index_, was_zero_copy_);
  keep_mac(args_, info_.capabilities.mac);
  is_reopened_ = true;
  for (const auto& queue : queues_) queue->on_closed();
  events_.on_away();
}

void EthernetPort::resume() {
  is_ready_ = false;
  if (is_reopened_) {
    for (Memory* memory : memories_) memory->look_at_regions_again();
  }
  for (uint16_t i = 0; i < queues_.size(); ++i) {
    queues_[i]->renew(queue_setup(i));
    if (is_reopened_) queues_[i]->set_wait(wait_of(i));
    queues_[i]->on_restart();
    if (is_started_) queues_[i]->start();
    watches_[i].forget();
  }
  is_reopened_ = false;
  link_.forget();
  is_running_ = is_started_;
  // Some drivers lose their multicast filters when they stop. What fails here was told at the
  // start.
  if (!groups_.empty()) static_cast<void>(join(std::vector<MacAddress>(groups_)));
}

int EthernetPort::start_device() {
  connection_ = kNoConnection;
  const int rc =
      is_memif_client_ ? start_memif_client(port_id_, connection_) : rte_eth_dev_start(port_id_);
  // Of the packets that the driver put into its rings.
  for (Memory* memory : memories_) memory->return_cached();
  return rc;
}

}  // namespace lyre::io::dpdk
