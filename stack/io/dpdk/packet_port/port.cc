#include "stack/io/dpdk/packet_port/port.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cerrno>

#include "stack/io/dpdk/interface_faults.h"
#include "stack/io/dpdk/port_errors.h"
#include "stack/io/dpdk/port_setup.h"

namespace lyre::io::dpdk {
namespace {

constexpr uint32_t kIpBytesMax = UINT16_MAX;
/// The largest packet that the kernel merges for receivers that do not ask for more.
constexpr uint32_t kPacketBytesMax = kEthernetHeaderBytes + kIpBytesMax + 40;

/// That a received packet fills at most.
uint32_t slots_of_packet(const Memory& memory) {
  const uint32_t room = rte_pktmbuf_data_room_size(memory.rx_mempool()) - RTE_PKTMBUF_HEADROOM;
  return (kPacketBytesMax + room - 1) / room;
}

}  // namespace

PacketPort::PacketPort(const PortOptions& options, std::span<Memory* const> memories)
    : options_(options),
      args_(DeviceArgs::parse(options.device)),
      interface_(args_.value_of("iface")),
      memories_(memories.begin(), memories.end()) {}

Result<std::unique_ptr<Port>> PacketPort::open(const PortOptions& options,
                                               std::span<Memory* const> memories) {
  if (memories.empty()) return Error{EINVAL, options.device + ": no worker to serve"};
  std::unique_ptr<PacketPort> port(new PacketPort(options, memories));
  if (const Status& asks = port->interface_socket_.status(); !asks) return asks.error();
  if (Status done = check_virtual_device(options.device, {}); !done) return done.error();
  for (const Memory* memory : memories) {
    if (slots_of_packet(*memory) <= PacketQueue::kPacketSlotsMax) continue;
    return Error{EINVAL, port->args_.name() + ": receive buffers are for packets of the MTU only"};
  }
  if (Status done = port->open_sockets(); !done) return done.error();
  port->make_queues();
  return std::unique_ptr<Port>(std::move(port));
}

PacketPort::~PacketPort() {
  suspend();
  close();
}

Status PacketPort::open_sockets() {
  auto capabilities = capabilities_now();
  if (!capabilities) return capabilities.error();
  interface_index_ = interface_index(interface_, interface_socket_);
  if (interface_index_ == 0) {  // a socket bound to 0 would have the packets of all interfaces
    return no_interface(args_.name(), interface_);
  }
  auto opened = open_packet_sockets(interface_index_, static_cast<uint32_t>(memories_.size()));
  if (!opened) return Error{opened.error().code, args_.name() + ": " + opened.error().text};
  sockets_ = std::move(*opened);
  info_ = {.name = args_.name(),
           .driver = "af_packet",
           .pci_path = pci_path_of_interface(interface_),
           .queue_count = static_cast<uint32_t>(memories_.size()),
           .capabilities = *capabilities};
  info_.warning = warning_now();
  return Ok{};
}

Result<IoCapabilities> PacketPort::capabilities_now() const {
  const auto mac = interface_mac(interface_, interface_socket_);
  if (!mac) return no_interface(args_.name(), interface_);
  if (!has_ethernet_frames(interface_, interface_socket_)) {
    return no_ethernet(args_.name(), interface_);
  }
  const uint32_t mtu = interface_mtu(interface_, interface_socket_);
  if (mtu < options_.mtu_bytes) {
    return small_mtu(args_.name(), options_.mtu_bytes, interface_, mtu);
  }
  return IoCapabilities{.mac = *mac,
                        .mtu_bytes = options_.mtu_bytes,
                        .tso_bytes_max = options_.use_tso ? kTsoPayloadBytesMax : 0,
                        .tx_pieces_max = kTxPiecesMax,
                        .tx_checksum_in_hardware = true,
                        .rx_checksum_in_hardware = true};
}

void PacketPort::make_queues() {
  for (size_t i = 0; i < memories_.size(); ++i) {
    const uint32_t slots_max = options_.rx_slots_max == 0 ? UINT32_MAX : options_.rx_slots_max;
    queues_.push_back(std::make_unique<PacketQueue>(
        PacketQueue::Setup{.index = options_.index,
                           .queue_count = info_.queue_count,
                           .packet_slots = slots_of_packet(*memories_[i]),
                           .rx_slots_max = slots_max,
                           .capabilities = info_.capabilities,
                           .interface = interface_,
                           .interface_socket = &interface_socket_,
                           .is_rx_trusted = options_.is_trusted},
        *memories_[i]));
    queues_.back()->start(sockets_[i].fd());
  }
  is_running_ = true;
}

bool PacketPort::is_link_up() const {
  return state_ == PortState::kRunning && queues_[0]->is_link_up();
}

void PacketPort::look(Nanos now) {
  retry_.look(now);
  if (sockets_.empty()) return;
  if (is_taken_away()) state_ = PortState::kAway;
  if (now < looks_again_at_) return;
  looks_again_at_ = now + kInterfaceLookInterval;
  info_.warning = warning_now();
}

/// An interface that was in another network namespace meanwhile has the same number, and its
/// sockets are closed to it.
bool PacketPort::is_taken_away() const {
  return is_interface_gone(interface_, interface_index_, interface_socket_) ||
         !sockets_[0].is_bound();
}

bool PacketPort::is_there() const { return interface_index(interface_, interface_socket_) != 0; }

/// The worst that there is to tell.
std::string PacketPort::warning_now() const {
  const IoCapabilities& known = info_.capabilities;
  std::string warning =
      changed_interface(interface_, known.mac, known.mtu_bytes, interface_socket_);
  if (warning.empty()) warning = forwarding_kernel(interface_, options_.addresses);
  if (warning.empty()) warning = oversized_merging(interface_, interface_index_);
  return warning;
}

uint64_t PacketPort::rx_missed() {
  for (const PacketSocket& socket : sockets_) lost_ += socket.take_lost();
  return lost_;
}

Status PacketPort::join(std::span<const MacAddress> groups) {
  groups_.assign(groups.begin(), groups.end());
  if (sockets_.empty()) return Ok{};  // resume() does it
  const Status joined = interface_groups_.join(interface_, groups_);
  if (joined) return Ok{};
  return Error{joined.error().code,
               args_.name() + ": cannot receive multicast frames: " + joined.error().text};
}

bool PacketPort::needs_restart() const {
  if (state_ == PortState::kRunning) return false;
  return is_running_ || !sockets_.empty() || (is_there() && retry_.is_due());
}

void PacketPort::suspend() {
  is_running_ = false;
  for (const auto& queue : queues_) queue->suspend();
}

Status PacketPort::restart() {
  const IoCapabilities before = info_.capabilities;
  close();
  if (!is_there()) return Error{ENODEV, args_.name() + ": is not there"};
  Status done = open_sockets();
  if (done.ok() && info_.capabilities != before) {
    done = changed(args_.name());
    info_.capabilities = before;
    close();
  }
  if (!done) {
    retry_.note_failure();
    return done;
  }
  retry_.note_success();
  state_ = PortState::kRunning;
  return Ok{};
}

void PacketPort::resume() {
  for (size_t i = 0; i < queues_.size(); ++i) queues_[i]->start(sockets_[i].fd());
  is_running_ = true;
  // What fails here was told at the start.
  if (!groups_.empty()) static_cast<void>(join(std::vector<MacAddress>(groups_)));
}

void PacketPort::close() {
  static_cast<void>(rx_missed());
  interface_groups_.leave();
  sockets_.clear();
  for (Memory* memory : memories_) memory->return_cached();
  state_ = PortState::kAway;
}

}  // namespace lyre::io::dpdk
